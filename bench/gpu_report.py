"""Bars and report of bench/gpu_check.py, which has figures beside them as JSON and as a table. Standard library only."""

import datetime
import json
import re

from program import MIB

GIB = 1 << 30
PEAK_SHARE = 0.25  # of PyTorch's eager peak, at full speed
FLOPS_SHARES = {"base": 0.4, "large": 0.5}  # of a matmul's rate, in bf16
SLOWER = 1.2
# The name and bar of figures that have one row.
LARGE = ("share of torch.matmul's bf16 rate, large", f"{FLOPS_SHARES['large']}")
FAMILIES = ("logits and gradients beside transformers, every family and task, fp32", "tools/compare_grad.py")
GENERATION = ("texts of 64 tokens that transformers writes too, greedy", "all")
LANGUAGE = ("a language model's step beside PyTorch's", "0.8")
BUDGET = ("time of an update within an eighth of PyTorch's eager peak, over that without a budget", f"{SLOWER}")
PEAKS = ("measured device peak against predicted, over models, levers and budgets", "never above; within 1 % or 8 MiB")
RANKS = ("training on two GPUs: losses of stages 0 to 3, beside one GPU, and each plan",
         "the same in all stages; within the tolerance of one GPU; never above a plan")
NEIGHBOUR = ("runs with random budgets beside a process that takes device memory", "none that begins fails")


def figure(name, bar, measured, verdict, note=""):
    return {"figure": name, "bar": bar, "measured": measured, "verdict": verdict, "note": note}


def judged(name, bar, measured, holds, note=""):
    return figure(name, bar, measured, "holds" if holds else "misses", note)


def not_measured(name, bar, reason):
    return figure(name, bar, "", "not measured", reason)


def last_words(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


def parity_figures(precision, report):
    rows = []
    for case in report:
        for row in case["rows"]:
            measured, bar = row["measured"], row["bar"]
            limit = f"{bar:.3g}" + (" (transformers' own)" if precision == "bf16" else "")
            rows.append(judged(f"{precision}, {case['case']}: {row['what']}", limit, f"{measured:.3g}", measured <= bar,
                               row["where"]))
    return rows


def families_figures(report):
    """Returns the row of check_families.py: how many cases hold, and what is nearest to its bar."""
    rows = [(case["case"], row) for case in report for row in case["rows"]]
    missed = [f"{case}: {row['what']} {row['measured']:.3g}, bar {row['bar']:.3g}" for case, row in rows
              if not row["measured"] <= row["bar"]]
    cases = {case.split(":")[0] for case in missed}
    case, worst = max(((case, row) for case, row in rows if row["bar"] > 0), key=lambda each: each[1]["measured"] / each[1]["bar"])
    note = "; ".join(missed[:3]) or f"the nearest to its bar: {case}: {worst['what']} {worst['measured']:.3g}, bar {worst['bar']:.3g}"
    return judged(*FAMILIES, f"{len(report) - len(cases)} of {len(report)}", not missed, note)


def language_figures(report):
    """Returns the rows of language_steps.py on a GPU."""
    return [judged(f"step beside PyTorch, {row['shape']}, {row['way']}, {row['precision']}: our time over its", f"{row['bar']}",
                   f"{row['ratio']:.2f}", row["holds"],
                   f"{row['seconds'] * 1000:.1f} ms and {row['their_seconds'] * 1000:.1f} ms; {row['peak_mib']} of "
                   f"{row['their_peak_mib']} MiB") for row in report["rows"]]


def speed_figures(program, rows):
    ours, theirs = rows[0], rows[1]
    bar = theirs["bar"]
    result = [figure(f"step beside PyTorch, {program}, bf16, batch 16, S = 709: its time over ours", f"{bar}",
                     f"{theirs['ratio']:.2f}", "holds" if theirs["ratio"] >= bar else "misses",
                     f"{ours['median_seconds'] * 1000:.1f} ms and {theirs['median_seconds'] * 1000:.1f} ms"),
              judged(f"peak device memory beside PyTorch, {program}",
                     "a quarter of its" if program == "eager" else "no more than its",
                     f"{ours['peak_bytes'] / GIB:.2f} of {theirs['peak_bytes'] / GIB:.2f} GiB",
                     ours["peak_bytes"] <= theirs["peak_bytes"] * (PEAK_SHARE if program == "eager" else 1),
                     f"its tensors {max(one['max_memory_allocated'] for one in theirs['runs']) / GIB:.2f} GiB")]
    if "share_of_matmul" in ours:
        result.append(rate_figure("base", ours, f", beside {program}", f"PyTorch {theirs['share_of_matmul']:.2f}; "))
    return result


def rate_figure(shape, ours, beside="", note=""):
    share = ours["share_of_matmul"]
    return judged(f"share of torch.matmul's bf16 rate, {shape}{beside}", f"{FLOPS_SHARES[shape]}", f"{share:.2f}",
                  share >= FLOPS_SHARES[shape], f"{note}matmul {ours['matmul_flops'] / 1e12:.0f} TFLOP/s")


def budget_figures(report):
    """Returns the rows of tight_budget.py."""
    name, bar = BUDGET
    sizes = f"{report['budget_bytes'] / GIB:.2f} of {report['pytorch_peak_bytes'] / GIB:.2f} GiB"
    if report["refused"]:
        return [judged(name, bar, "refused", False, f"{sizes}: {report['refused'][:300]}")]
    holds = report["ratio"] <= SLOWER and report["peak_bytes"] <= report["budget_bytes"]
    busy = f"without a budget the GPU works {100 * report['device_busy']:.1f} % of the time, first updates included"
    return [judged(name, bar, f"{report['ratio']:.2f}", holds, f"held {report['peak_bytes'] / GIB:.2f}, budget {sizes}; {busy}")]


def peaks_figures(report):
    """Returns the rows of predicted_against_measured.py."""
    words = (f"{report['runs'] - report['failed']} of {report['runs']}, {report['above_prediction']} above; the largest error "
             f"{report['largest_error_bytes'] / MIB:.1f} MiB")
    if report["failed"]:
        first = [f"{row['model']} {' '.join(row['levers'])}: {row['failure'].splitlines()[0]}" for row in report["rows"] if row["failure"]]
        return [judged(*PEAKS, words, False, "; ".join(first[:3]))]
    return [whole(PEAKS, report, words)]


def neighbour_figures(report):
    """Returns the rows of random_budgets.py."""
    ended = report["failed"] + report["killed"]
    words = f"{report['done']} to the end, {report['refused']} refused at the start, {ended} failed"
    neighbour = report["neighbour"]
    note = f"the neighbour held up to {neighbour['most_bytes'] / GIB:.1f} GiB, all there was {neighbour['times_full']} times"
    if ended:
        return [judged(*NEIGHBOUR, words, False, note)]
    if not report["done"] or not neighbour["times_full"]:
        return [figure(*NEIGHBOUR, words, "not measured", f"nothing met the other; {note}")]
    return [whole(NEIGHBOUR, report, words, note)]


def ranks_figures(report):
    """Returns the rows of gpu_ranks.py."""
    rows = []
    for row in report["rows"]:
        near, within = row["largest_difference"] <= row["tolerance"], row["above_plan_bytes"] <= 0
        words = (f"{'the same' if row['same_losses'] else 'differ'}; {row['largest_difference']:.1e} from one GPU; "
                 f"{row['above_plan_bytes'] / MIB:+.1f} MiB")
        alone, first = row["runs"][0]["seconds"], row["runs"][1]["seconds"]
        rows.append(judged(f"{RANKS[0]}, {row['precision']}", RANKS[1], words, row["same_losses"] and near and within,
                           f"tolerance {row['tolerance']:.0e}; {alone:.1f} s on one GPU, {first:.1f} s on {report['ranks']}"))
    return rows


def whole(row, report, words, note=""):
    """The bar holds only if every requested run was made in time."""
    if report["runs"] < report["asked"]:
        return figure(*row, words, "not measured", f"{report['runs']} of {report['asked']} runs in the time there was; {note}")
    return judged(*row, words, True, note)


def table(report):
    lines = [f"# {report['device']}, {report['date']}", "", *(f"{key}: {value}  " for key, value in report["environment"].items()),
             "", "| figure | bar | measured | verdict |", "| --- | --- | --- | --- |"]
    for row in report["figures"]:
        cells = [row["figure"], row["bar"], row["measured"], row["verdict"] + (f" ({row['note']})" if row["note"] else "")]
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def write_report(folder, device, environment, figures, order, date=None):
    """Adds to the results of other parts from the same day; rows are in the order of parts."""
    date = date or datetime.date.today().isoformat()
    path = folder / f"{re.sub(r'[^a-z0-9]+', '-', device.lower()).strip('-')}-{date}.json"
    known = json.loads(path.read_text())["figures"] if path.exists() else []
    again = {row["part"] for row in figures}
    rows = sorted([row for row in known if row["part"] in order and row["part"] not in again] + figures,
                  key=lambda row: order.index(row["part"]))
    report = {"device": device, "date": date, "environment": environment, "figures": rows}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(table(report), encoding="utf-8")
    return path
