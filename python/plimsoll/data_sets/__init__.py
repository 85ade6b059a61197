"""Data sets as they are published, read one page at a time. tools/convert_dataset.py writes them as JSONL."""
