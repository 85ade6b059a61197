"""Decoders with random weights, and texts for them, which the benchmarks of language models share.

  decoders.make(folder, "qwen2.5-0.5b")      # in a process of its own, whose memory is free again; needs .venv
  decoders.write_texts(path, words=2400)
"""

import json
import subprocess
import sys
from pathlib import Path

from program import REPOSITORY, run

CLASSES = {"gpt2": ("GPT2LMHeadModel", "GPT2Config"), "llama": ("LlamaForCausalLM", "LlamaConfig"),
           "qwen2": ("Qwen2ForCausalLM", "Qwen2Config"), "qwen3": ("Qwen3ForCausalLM", "Qwen3Config")}
# Published shapes: family and config.
SHAPES = {
    "gpt2": ("gpt2", dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "smollm2-135m": ("llama", dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                                   num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
                                   rms_norm_eps=1e-5, tie_word_embeddings=True)),
    "qwen2.5-0.5b": ("qwen2", dict(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                                   num_attention_heads=14, num_key_value_heads=2, max_position_embeddings=32768,
                                   rms_norm_eps=1e-6, tie_word_embeddings=True)),
    "llama-3.2-1b": ("llama", dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                                   num_attention_heads=32, num_key_value_heads=8, head_dim=64,
                                   max_position_embeddings=131072, rms_norm_eps=1e-5, tie_word_embeddings=True,
                                   rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=32.0,
                                                        high_freq_factor=4.0, low_freq_factor=1.0,
                                                        original_max_position_embeddings=8192))),
}


def make(folder, family, config=None, dtype="float32"):
    """Writes a model of one of SHAPES, or of a family with that config, unless it is there."""
    if (folder / "model.safetensors").exists():
        return
    if config is None:
        family, config = SHAPES[family]
    subprocess.run([sys.executable, __file__, folder, family, json.dumps(config), dtype], check=True)


def write_texts(path, words, lines=8):
    line = json.dumps({"text": "total cash receipt paid number tax " * (words // 6)}) + "\n"
    path.write_text(lines * line, encoding="utf-8")


def smallest_budget(program, arguments):
    """The budget that a refusal names."""
    result = run(program, "train", *arguments, "--budget", "64MiB", "--output-dir", "none", "--json", allowed=(4,))
    return json.loads(result.stdout.strip().splitlines()[-1])["error"]["smallest_budget_bytes"]


def write_model(folder, family, config, dtype):
    import torch
    import transformers

    transformers.set_seed(1)
    torch.set_default_dtype(getattr(torch, dtype))
    model, its_config = (getattr(transformers, name) for name in CLASSES[family])
    folder.mkdir(parents=True, exist_ok=True)
    model(its_config(**config)).save_pretrained(folder)
    tokenizer = REPOSITORY / "test" / "data" / "tokenizers" / "qwen.json"
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.argv[4])
