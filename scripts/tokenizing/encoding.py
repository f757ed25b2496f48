"""Token ids of documents of any length, for scripts/tokenize."""

from bisect import bisect_left, bisect_right

from .common import Problem

# Long documents are encoded in windows of STEP + 2 * OVERLAP characters, STEP apart,
# which are joined within their overlap, where AGREE tokens on both sides are the same.
STEP, OVERLAP, AGREE = 1 << 17, 1 << 11, 16
BATCH = 1 << 21  # characters that are encoded at once


class Window:
    def __init__(self, text, start, last):
        self.text, self.start, self.last = text, start, last
        self.ids, self.places = [], []

    def whole(self):
        return self.last and self.start == 0


def windows(pieces):
    text, start, longest = "", 0, STEP + 2 * OVERLAP
    for piece in pieces:
        text += piece
        while len(text) > longest:
            yield Window(text[:longest], start, False)
            text, start = text[STEP:], start + STEP
    yield Window(text, start, True)


def encoded(method, texts):
    try:
        return method(list(texts), add_special_tokens=False)
    except Exception as error:
        raise Problem(f"the tokenizer cannot encode the texts: {error}") from None


def encode(tokenizer, batch):
    fast = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    whole = [w for w in batch if w.whole()]
    for w, e in zip(whole, encoded(fast, (w.text for w in whole))):
        w.ids = e.ids
    parts = [w for w in batch if not w.whole()]
    made = encoded(tokenizer.encode_batch, (w.text for w in parts))
    for w, e in zip(parts, made):
        w.ids, w.places = e.ids, [w.start + begin for begin, _ in e.offsets]


def agree(a, i, b, j):
    """Whether the tokens around a's i-th and b's j-th are the same, in the same place."""
    if min(i, j) < AGREE or i + AGREE > len(a.ids) or j + AGREE > len(b.ids):
        return False
    one, other = slice(i - AGREE, i + AGREE), slice(j - AGREE, j + AGREE)
    return a.ids[one] == b.ids[other] and a.places[one] == b.places[other]


def join(tokenizer, a, b):
    """Where to go over from window a to b: indices of the same token."""
    middle = bisect_left(a.places, b.start + OVERLAP)
    for i in range(middle, len(a.ids) - AGREE):
        first = bisect_left(b.places, a.places[i])
        for j in range(first, bisect_right(b.places, a.places[i])):
            if agree(a, i, b, j):
                return i, j
    # Tokens depend on text from far away: b begins anew where a ends.
    end = a.start + len(a.text)
    b.text, b.start = b.text[end - b.start:], end
    encode(tokenizer, [b])
    return len(a.ids), 0


def batches(items, size):
    """What comes before a problem is in a batch, too."""
    batch, total, problem = [], 0, None
    try:
        for item in items:
            batch.append(item)
            total += size(item)
            if total >= BATCH or len(batch) >= 4096:
                yield batch
                batch, total = [], 0
    except (Problem, OSError) as reason:
        problem = reason
    if batch:
        yield batch
    if problem:
        raise problem


def write_texts(tokenizer, texts, writer):
    """Documents' pieces, in windows."""
    before, begin = None, 0
    flat = (w for pieces in texts for w in windows(pieces))
    for batch in batches(flat, lambda w: len(w.text)):
        encode(tokenizer, batch)
        for w in batch:
            if before:
                i, j = join(tokenizer, before, w)
                writer.add(before.ids[begin:i])
                begin = j
            before = w
            if w.last:
                writer.add(w.ids[begin:])
                writer.end_document()
                before, begin = None, 0


def write_pairs(tokenizer, pairs, writer):
    """Prompts and completions: encoded together where the prompt's own tokens come
    first then, else apart."""

    def ids(texts):
        return [e.ids for e in encoded(tokenizer.encode_batch, texts)]

    for batch in batches(pairs, lambda pair: len(pair[0]) + len(pair[1])):
        prompts, both = ids([p for p, _ in batch]), ids([p + c for p, c in batch])
        for (_, completion), prompt, joint in zip(batch, prompts, both):
            fits = joint[:len(prompt)] == prompt
            writer.add(prompt, counts=0)
            writer.add(joint[len(prompt):] if fits else ids([completion])[0])
            writer.end_document()
