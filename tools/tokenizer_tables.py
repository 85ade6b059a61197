"""What the makers of the tokenizer's tables share; not a program itself."""

import tokenizers


def finish(output, text, check):
    """Writes the table, or with `check` compares it with the committed one but for its comments; returns an exit code."""
    if not check:
        output.write_text(text)
        print(f"wrote {output} ({len(text)} bytes)")
        return 0

    def body(table):
        return [line for line in table.splitlines() if not line.startswith("//")]

    same = body(output.read_text()) == body(text)
    print(f"{output.name}: {'same' if same else 'differs from'} tokenizers {tokenizers.__version__}")
    return 0 if same else 1
