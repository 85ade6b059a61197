#!/usr/bin/env python3
"""Compares weights in 4 and 8 bits with bitsandbytes, transformers and PEFT. Exit 1 if a bar fails.

For each family, with the factors of blocks as they are and quantized in turn (bnb_4bit_use_double_quant):

1. transformers quantizes random weights and saves them; `plimsoll quantize` does so with the same weights. Without double
   quantization every number that the two files stand for is the same, bit for bit. With it a factor that lies between
   two codes may have the other one: on a processor bitsandbytes finds the nearest by a table, Plimsoll by comparing.
2. `plimsoll grad` on either directory: logits and all gradients against transformers, which computes with the weights as
   bitsandbytes decodes them, in float64. transformers opens the one that Plimsoll wrote.
3. PEFT makes an adapter on the directory that transformers wrote; `plimsoll grad` reads both: logits against PEFT's
   forward pass on weights in 4 bits, gradients against PEFT in float64 on what those decode to.

4. The same of a directory that transformers wrote in 8 bits (LLM.int8()), which Plimsoll reads and does not write; with
   adapters only gradients, since bitsandbytes multiplies in 8 bits.

  tools/check_quantized.py [--families llama,gpt2] [--plimsoll build/release/plimsoll] [--work build/quantized]
"""

import argparse
import shutil
import sys
from pathlib import Path

import peft
import torch
import transformers
from safetensors.torch import load_file

import check_peft
import compare_grad
import families
import reference

TASKS = {"llama": "causal-lm-tied", "qwen2": "causal-lm", "qwen3": "causal-lm", "gpt2": "causal-lm",
         "roberta": "token-classification"}
EIGHT_BITS = "transformers-8-bits"  # the directory's name
CLASSES = {"causal-lm": transformers.AutoModelForCausalLM, "token-classification": transformers.AutoModelForTokenClassification}


# On a processor bitsandbytes 0.50 decodes rows that are no whole blocks wrongly (not as it coded them).
families.FAMILIES["qwen3"][2]["head_dim"] = 32
families.SHAPES["small"]["vocab_size"] = 8000  # those of a preset's tokenizer


def load(folder, task, **options):
    return CLASSES[task.removesuffix("-tied")].from_pretrained(folder, **options).eval()


def in_4_bits(task, use_double_quant):
    skipped = None if task.startswith("causal-lm") else ["classifier"]  # which trains beside PEFT's adapters
    return transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32,
                                           bnb_4bit_use_double_quant=use_double_quant, llm_int8_skip_modules=skipped)


def in_8_bits(task):
    skipped = None if task.startswith("causal-lm") else ["classifier"]
    return transformers.BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=skipped)


def decoded(folder, task):
    """The model with what its weights' codes stand for."""
    return load(folder, task, dtype=torch.float32).dequantize().float()


def coded_names(folder):
    names = list(load_file(folder / "model.safetensors"))
    return {name.removesuffix(".absmax") for name in names if name.endswith(".absmax")} | {
        name.removesuffix("SCB") + "weight" for name in names if name.endswith(".SCB")}


def check_grad(report, plimsoll, folder, task, batch, batch_file, work):
    found = work / "grad.safetensors"
    check_peft.run(plimsoll, "grad", "--model", folder, "--batch", batch_file, "--output", found)
    model = decoded(folder, task).double().requires_grad_(True)
    expected = reference.loss_and_gradients(model, families.exact(batch))
    if model.config.model_type == "gpt2":  # what was a Conv1D is a Linear once it is decoded
        expected = {name: value.T if name in coded_names(folder) else value for name, value in expected.items()}
    rows, _ = compare_grad.compare(load_file(found), expected)
    for what, measured, bar, _ in rows:
        report.row(f"{folder.name}: {what}", measured, bar)


def make_adapter(folder, task, directory):
    torch.manual_seed(5)
    targets = ["c_attn", "c_fc"] if "c_attn" in str(load(folder, task)) else ["q_proj", "down_proj", "query", "output.dense"]
    config = peft.LoraConfig(r=3, lora_alpha=7, target_modules=targets, fan_in_fan_out=False,
                             task_type="CAUSAL_LM" if task.startswith("causal-lm") else "TOKEN_CLS")
    model = peft.get_peft_model(load(folder, task), config)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.requires_grad:
                value.normal_(0, 0.1)
    model.save_pretrained(directory)


def check_adapter(report, plimsoll, folder, task, batch, batch_file, work):
    adapter, found_file = work / "adapter", work / "adapter.safetensors"
    make_adapter(folder, task, adapter)
    check_peft.run(plimsoll, "grad", "--model", adapter, "--base-model", folder, "--batch", batch_file, "--output", found_file)
    found = load_file(found_file)
    if folder.name != EIGHT_BITS:
        on_codes = peft.PeftModel.from_pretrained(load(folder, task), adapter, is_trainable=True).eval()
        for module in on_codes.modules():
            if hasattr(module, "support_avx512bf16_for_cpu"):
                module.support_avx512bf16_for_cpu = False  # it would round to bfloat16
        _, logits, _ = check_peft.forward_backward(on_codes, batch)
        report.row("adapter: logits against PEFT on 4 bits", float((found["logits"] - logits).abs().max()), check_peft.LOGITS_BAR)
    exact = peft.PeftModel.from_pretrained(decoded(folder, task), adapter, is_trainable=True).eval().double()
    _, _, exact = check_peft.forward_backward(exact, families.exact(batch))
    names = set(found) - {"loss", "logits"}
    report.row(f"adapter: names of {len(exact)} gradients that only one has", len(names ^ set(exact)), 0)
    worst = max(check_peft.relative(found[name], exact[name]) for name in names & set(exact) if exact[name].norm() > 1e-9)
    report.row("adapter: gradients, worst relative difference", worst, check_peft.GRADIENT_BAR)


def make_inputs(plimsoll, family, work):
    """A random model in work/floats; returns a batch for it and the file of that."""
    task, floats = TASKS[family], work / "floats"
    model = families.make_model(family, "small", labels=9, seed=7, task=task)
    model.save_pretrained(floats)
    tokenizer = reference.REPOSITORY / "test" / "data" / "tokenizers" / "qwen.json"
    if not task.startswith("causal-lm"):
        check_peft.run(plimsoll, "init", "--model", f"{family}-tiny", "--output-dir", work / "preset")
        tokenizer = work / "preset" / "tokenizer.json"
    shutil.copyfile(tokenizer, floats / "tokenizer.json")
    batch = families.make_batch(model.config, lengths=(101, 60, 83), length=101, seed=8, task=task)
    batch_file = work / "batch.safetensors"
    reference.write_tensors(batch, batch_file)
    return batch, batch_file


def check_8_bits(report, plimsoll, family, work):
    task, folder = TASKS[family], work / EIGHT_BITS
    batch, batch_file = make_inputs(plimsoll, family, work)
    load(work / "floats", task, quantization_config=in_8_bits(task)).save_pretrained(folder)
    report.row("no matrix is in 8 bits", int(not coded_names(folder)), 0)
    check_grad(report, plimsoll, folder, task, batch, batch_file, work)
    check_adapter(report, plimsoll, folder, task, batch, batch_file, work)


def check_4_bits(report, plimsoll, family, use_double_quant, work):
    task = TASKS[family]
    floats, theirs, ours = work / "floats", work / "transformers", work / "plimsoll"
    batch, batch_file = make_inputs(plimsoll, family, work)
    load(floats, task, quantization_config=in_4_bits(task, use_double_quant)).save_pretrained(theirs)
    check_peft.run(plimsoll, "quantize", "--model", floats, "--output-dir", ours,
                   *(["--bnb-4bit-use-double-quant"] if use_double_quant else []))
    first, second = decoded(theirs, task).state_dict(), decoded(ours, task).state_dict()
    report.row("names that only one has", len(first.keys() ^ second.keys()), 0)
    coded = coded_names(ours)
    least = 1e-7 if use_double_quant else 0  # of what counts as a difference: their mean of factors is a sum in float32
    differing = sum(int(((first[name] - second[name]).abs() > least).sum()) for name in coded & first.keys())
    numbers = sum(first[name].numel() for name in coded & first.keys())
    report.row(f"{len(coded)} matrices, numbers that differ, of all", differing / numbers, 0.01 if use_double_quant else 0)
    for folder in (theirs, ours):
        check_grad(report, plimsoll, folder, task, batch, batch_file, work)
    check_adapter(report, plimsoll, theirs, task, batch, batch_file, work)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(TASKS))
    parser.add_argument("--plimsoll", type=Path, default=reference.PLIMSOLL)
    parser.add_argument("--work", type=Path, default=reference.REPOSITORY / "build" / "quantized")
    options = parser.parse_args()
    torch.set_num_threads(2)
    report = check_peft.Report()
    for family in options.families.split(","):
        for form in ("4 bits", "4 bits, factors quantized", "8 bits"):
            print(f"{family}, {form}:")
            work = options.work / family / form.replace(", ", "-").replace(" ", "-")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            if form == "8 bits":
                check_8_bits(report, options.plimsoll, family, work)
            else:
                check_4_bits(report, options.plimsoll, family, form != "4 bits", work)
    print("every bar holds" if report.good else "A BAR FAILS")
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
