"""DocVQA: a question about a page in each row, whose answers are texts; their words are found on the page."""

from .problem import problem, shown

QUESTIONS, ANSWERS = ("question", "query", "questions"), ("answers", "answer")


def is_docvqa(names):
    return any(name in names for name in QUESTIONS[:2]) and any(name in names for name in ANSWERS)


def find_words(words, text):
    """Returns the range of the words that are `text`, the first such, without regard to case; None if there is none."""
    wanted = text.lower().split()
    lower = [word.lower() for word in words]
    for begin in range(len(words) - len(wanted) + 1 if wanted else 0):
        if lower[begin:begin + len(wanted)] == wanted:
            return begin, begin + len(wanted)
    return None


def question_of(row, words, where):
    """Returns a row's question as the program reads it: without answers where none stands on the page."""
    question = next(row[name] for name in QUESTIONS if name in row)
    if isinstance(question, dict):  # {"en": "…", "de": "…"}
        question = question.get("en") or next((text for text in question.values() if text), None)
    if not isinstance(question, str):
        raise problem("a question is not text", where, shown(question), "a string")
    texts = next((row[name] for name in ANSWERS if row.get(name)), [])
    if isinstance(texts, dict):
        texts = texts.get("text", [])
    answers = []
    for text in [texts] if isinstance(texts, str) else texts:
        found = find_words(words, text)
        if found is not None:
            answers.append({"text": text, "start_word": found[0], "end_word": found[1]})
    identity = next((row[name] for name in ("questionId", "id") if row.get(name) is not None), None)
    return {**({} if identity is None else {"id": str(identity)}), "question": question, "answers": answers}
