"""DocVQA: a question about a page in each row, whose answers are texts; the program finds their words on the page."""

from .problem import problem, shown

QUESTIONS, ANSWERS = ("question", "query", "questions"), ("answers", "answer")


def is_docvqa(names):
    return any(name in names for name in QUESTIONS[:2]) and any(name in names for name in ANSWERS)


def question_of(row, where):
    """Returns a row's question as the program reads it."""
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
        answers.append({"text": text})
    identity = next((row[name] for name in ("questionId", "id") if row.get(name) is not None), None)
    return {**({} if identity is None else {"id": str(identity)}), "question": question, "answers": answers}
