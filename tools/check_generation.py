#!/usr/bin/env python3
"""Checks that `plimsoll generate` writes what transformers' generate writes: greedy, 64 tokens, every decoder's family.

  tools/check_generation.py [--families gpt2,llama] [--tokens 64] [--device cuda] [--work build/generation]

Models are small, with random weights of which none is 0 or 1, and heads tied to the word embedding and not; prompts are
of different lengths, several at a time, longer than what is read at once too; and again with a stop string. Exit 1 if a
token differs.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import tokenizers
import torch
import transformers

import families
import pair_heads
import reference

PROMPTS = ["The total is", "a", "Receipt number 17 of the shop at the corner, paid in cash: ",
           "All that was bought, line by line, with its price and the tax. " * 12]


def run(command):
    completed = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if completed.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {completed.returncode}\n{completed.stdout}{completed.stderr}")
    return completed.stdout


def make_model(family, tied, folder, plimsoll):
    """A model directory with the embedded tokenizer."""
    shutil.rmtree(folder, ignore_errors=True)
    run([plimsoll, "init", "--model", "llama-tiny", "--task", "causal-lm", "--output-dir", folder])
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config_class, name, more = families.FAMILIES[family]
    values = {**families.SHAPES["small"], **more, "vocab_size": written["vocab_size"], "tie_word_embeddings": tied,
              **{key: written[key] for key in ("pad_token_id", "bos_token_id", "eos_token_id")}}
    model = families.class_of(name + "ForCausalLM")(getattr(transformers, config_class)(**values))
    reference.randomise(model, seed=5)
    (folder / "model.safetensors").unlink()
    (folder / "checksums.json").unlink(missing_ok=True)
    model.eval().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return model


def text_tokenizer(folder):
    """The directory's tokenizer, for texts as they stand: the embedded one is made for words, and would set a space in
    front."""
    definition = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    definition["pre_tokenizer"]["add_prefix_space"] = False
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(definition)))


def count_same(model, encoder, folder, options, *more, **settings):
    """Returns how many prompts' tokens are those of transformers' generate, and the completions."""
    tokens = options.tokens
    lines = run([options.plimsoll, "generate", "--model", folder, "--data", folder.parent / "prompts.jsonl",
                 "--max-new-tokens", tokens, "--budget", "1GiB", "--device", options.device, *more]).splitlines()
    same, found = 0, [json.loads(line) for line in lines]
    for prompt, line in zip(PROMPTS, found, strict=True):
        ids = [model.config.bos_token_id] + encoder.encode(prompt, add_special_tokens=False)
        with torch.no_grad():
            expected = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
                                      max_new_tokens=tokens, pad_token_id=model.config.pad_token_id,
                                      **settings)[0, len(ids):]
        good = line["tokens"] == expected.tolist()
        same += good
        if not good:
            print(f"    {len(ids)} tokens before: {line['tokens'][:8]}... for {expected.tolist()[:8]}...")
    return same, [line["completion"] for line in found]


def compare(family, tied, folder, options):
    tokens, model = options.tokens, make_model(family, tied, folder, options.plimsoll)
    (folder.parent / "prompts.jsonl").write_text(
        "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS), encoding="utf-8")
    tokenizer = text_tokenizer(folder)
    same, texts = count_same(model, tokenizer, folder, options)
    # Three letters from the middle of a text, which may begin and end within tokens.
    middle = len(texts[0]) // 2
    stop = texts[0][middle:middle + 3]
    stopped, shorter = count_same(model, tokenizer, folder, options, f"--stop-strings={stop}", stop_strings=[stop],
                                  tokenizer=tokenizer)
    print(f"{family}, {'tied' if tied else 'own'} head: {same} of {len(PROMPTS)} texts of {tokens} tokens are the same; "
          f"{stopped} of those that end with {stop!r}")
    return same == stopped == len(PROMPTS) and len(shorter[0]) < len(texts[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(pair_heads.DECODERS))
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--work", default="build/generation", type=Path)
    parser.add_argument("--plimsoll", type=Path, default=reference.PLIMSOLL)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    good = True
    for family in options.families.split(","):
        for tied in (False, True):
            good = compare(family, tied, options.work / family, options) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
