"""Tests of scripts/tokenize, with tokenizers that they make.

    python3 tests/scripts/tokenize_test.py

They are skipped where the package `tokenizers` cannot be imported.
"""

import ast
import fcntl
import gzip
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from array import array

try:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError:
    Tokenizer = None
try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    pyarrow = None
try:
    import zstandard
except ImportError:
    zstandard = None

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts")
SCRIPT = os.path.join(SCRIPTS, "tokenize")
LINES = [
    "The quick brown fox jumps over the lazy dog.",
    "Troupes of actors travel, play, and travel on.\n\nThen they rest...",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. 東京は夜。",
    "def add(a, b):\n    return a + b  # 12345 + 67890",
]
END = "<|endoftext|>"


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        LINES * 4,
        trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=[END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def word_pieces_with_prefix():
    """As SentencePiece: a prefix before the text, words not apart."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        " ".join(LINES).split(" "),
        trainers.BpeTrainer(
            vocab_size=300, special_tokens=["<unk>", END], show_progress=False
        ),
    )
    return tokenizer


def many_words(count):
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(count)}, "w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def long_text(characters):
    draw, words = random.Random(1), " ".join(LINES).split()
    out, size = [], 0
    while size < characters:
        out.append(draw.choice(words) + draw.choice([" ", " ", "  ", "\n", "\n\n"]))
        size += len(out[-1])
    return "".join(out)


def npy(descr="'<u2'", shape="(2,)", version=b"\1\0"):
    """A file of two tokens, 1 and 2."""
    header = f"{{'descr': {descr}, 'fortran_order': True, 'shape': {shape}, }}\n"
    form = "<H" if version == b"\1\0" else "<I"
    size = struct.pack(form, len(header))
    return b"\x93NUMPY" + version + size + header.encode() + struct.pack("<HH", 1, 2)


def read_npy(path):
    with open(path, "rb") as f:
        assert f.read(8) == b"\x93NUMPY\x01\x00"
        (size,) = struct.unpack("<H", f.read(2))
        assert (10 + size) % 64 == 0
        header = ast.literal_eval(f.read(size).decode())
        data = f.read()
    code = {"<u2": "H", "<u4": "I", "|u1": "B"}[header["descr"]]
    values = array(code, data)
    assert header["shape"] == (len(values),) and not header["fortran_order"]
    return header["descr"], values.tolist()


@unittest.skipIf(Tokenizer is None, "the package tokenizers is not installed")
class TokenizeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.tokenizer = byte_level()
        self.save(self.tokenizer)
        self.out = self.path("out.npy")

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, tokenizer):
        self.model = self.path("model")
        os.makedirs(self.model, exist_ok=True)
        tokenizer.save(os.path.join(self.model, "tokenizer.json"))
        self.end = tokenizer.token_to_id(END)

    def write(self, name, data):
        data = data if isinstance(data, bytes) else data.encode()
        with (gzip.open if name.endswith(".gz") else open)(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def objects(self, name, *objects):
        return self.write(name, "".join(json.dumps(o) + "\n" for o in objects))

    def run_script(self, *arguments, input=None, **environment):
        command = [sys.executable, SCRIPT, "--tokenizer", self.model, *arguments]
        return subprocess.run(command, input=input, capture_output=True,
                              env=os.environ | environment)

    def tokenize(self, *arguments, out=None, end=END):
        out = out or self.out
        result = self.run_script("--out", out, "--end-of-text", end, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout.decode()

    def refused(self, *arguments, end=END):
        """The message; only documents before may be left behind, and are removed."""
        before = sorted(os.listdir(self.folder))
        ending = [] if end is None else ["--end-of-text", end]
        result = self.run_script("--out", self.out, *ending, *arguments)
        self.assertEqual(result.returncode, 1, result.stderr.decode())
        kept_files = [self.out + ".kept", self.out + ".kept.json"]
        self.assertEqual(*map(os.path.exists, kept_files))
        self.assertEqual("are kept" in result.stderr.decode(), os.path.exists(kept_files[0]))
        for path in filter(os.path.exists, kept_files):
            os.remove(path)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return self.one_line(result)

    def one_line(self, result):
        message = result.stderr.decode()
        self.assertRegex(message, r"\Atokenize: [^\n]+\n\Z")
        return message

    def ids(self, *texts):
        out = []
        for text in texts:
            out += self.tokenizer.encode(text, add_special_tokens=False).ids + [self.end]
        return out

    def test_text_files(self):
        files = [self.write(f"{i}.txt", text) for i, text in enumerate(LINES)]
        output = self.tokenize(*files)
        expected = self.ids(*LINES)
        self.assertEqual(read_npy(self.out), ("<u2", expected))
        self.assertIn(f"{len(expected)} tokens of 16 bits, 4 documents", output)
        self.assertNotIn(".partial", " ".join(os.listdir(self.folder)))

    def test_lines_of_json(self):
        rows = [{"id": i, "body": text} for i, text in enumerate(LINES)]
        plain = self.objects("a.jsonl", *rows)
        packed = self.objects("b.json.gz", *rows)
        self.tokenize("--text-field", "body", plain, packed)
        self.assertEqual(read_npy(self.out)[1], self.ids(*LINES, *LINES))

    def test_zstandard(self):
        file = self.path("a.jsonl.zst")
        rows = "".join(json.dumps({"text": text}) + "\n" for text in LINES).encode()
        if zstandard is None:
            self.assertIn("pip install zstandard", self.refused(self.write("a.txt.zst", "")))
            return
        for packed in rows[:9], rows:
            # Two frames: files may be joined.
            parts = [zstandard.compress(part) for part in (packed[:5], packed[5:])]
            with open(file, "wb") as f:
                f.write(b"".join(parts))
            if packed is rows:
                self.tokenize(file)
                self.assertEqual(read_npy(self.out)[1], self.ids(*LINES))
            else:
                self.assertIn("is not JSON", self.refused(file))
        for wrong in parts[0][:-3], b"plain":
            with open(file, "wb") as f:
                f.write(wrong)
            self.assertIn("a.jsonl.zst", self.refused(file))

    def test_empty_lines_and_documents(self):
        file = self.write("a.jsonl", '\ufeff{"text": ""}\n\n{"text": "a"}')
        self.tokenize(file)
        self.assertEqual(read_npy(self.out)[1], self.ids("", "a"))

    def test_named_special_tokens_are_read(self):
        self.tokenize(self.write("a.txt", f"a{END}b"), end="none")
        self.assertEqual(read_npy(self.out)[1].count(self.end), 1)

    def test_long_documents_are_as_encoded_at_once(self):
        text = long_text(700_000)
        for tokenizer in byte_level(), word_pieces_with_prefix():
            self.tokenizer = tokenizer
            self.save(tokenizer)
            file = self.write("a.txt", text)
            other = self.objects("b.jsonl", {"text": text}, {"text": "more"})
            self.tokenize(file, other)
            self.assertTrue(read_npy(self.out)[1] == self.ids(text, text, "more"))

    def test_text_without_a_place_to_join_keeps_its_characters(self):
        text = "travel" * 100_000 + "l" * 100_001
        self.tokenize(self.write("a.txt", text), end="none")
        decoded = self.run_script("--decode", self.out).stdout.decode()
        self.assertTrue(decoded == text)

    def test_parquet(self):
        file = self.path("a.parquet")
        if pyarrow is None:
            self.write("a.parquet", "")
            self.assertIn("pip install pyarrow", self.refused(file))
            return
        parquet.write_table(pyarrow.table({"text": LINES}), file)
        self.tokenize(file)
        self.assertEqual(read_npy(self.out)[1], self.ids(*LINES))
        self.assertIn("has no column 'body' (its columns: text)",
                      self.refused("--text-field", "body", file))
        parquet.write_table(pyarrow.table({"text": ["a", None]}), file)
        self.assertIn("row 2: field 'text' is of type NoneType", self.refused(file))
        bytes_of_text = map(pyarrow.py_buffer, (struct.pack("<2i", 0, 1), b"\xff"))
        wrong = pyarrow.Array.from_buffers(pyarrow.string(), 1, [None, *bytes_of_text])
        parquet.write_table(pyarrow.table({"text": wrong}), file)
        self.assertIn("a.parquet: 'utf-8' codec can't decode", self.refused(file))
        late = pyarrow.array([2**62], pyarrow.timestamp("us"))
        parquet.write_table(pyarrow.table({"text": late}), file)
        self.assertIn("a.parquet: date value out of range", self.refused(file))
        self.write("a.parquet", "no parquet")
        self.assertIn("a.parquet: ", self.refused(file))

    def test_megatron(self):
        file = self.objects("a.jsonl", *({"text": text} for text in LINES))
        out = self.path("corpus.bin")
        self.tokenize(file, out=out)
        self.tokenize(file, out=out)  # over the ones that are there
        with open(out, "rb") as f:
            self.assertEqual(array("H", f.read()).tolist(), self.ids(*LINES))
        with open(self.path("corpus.idx"), "rb") as f:
            index = f.read()
        self.assertEqual(index[:9], b"MMIDIDX\0\0")
        self.assertEqual(struct.unpack_from("<QBQQ", index, 9), (1, 8, 4, 5))
        lengths = [len(self.ids(text)) for text in LINES]
        offsets = [2 * sum(lengths[:i]) for i in range(4)]
        self.assertEqual(list(struct.unpack_from("<4i", index, 34)), lengths)
        self.assertEqual(list(struct.unpack_from("<4q", index, 50)), offsets)
        self.assertEqual(struct.unpack_from("<5q", index, 82), (0, 1, 2, 3, 4))
        self.assertEqual(len(index), 82 + 40)
        decoded = self.run_script("--decode", out).stdout.decode()
        self.assertEqual(decoded, "".join(text + END for text in LINES))

    def test_types_of_tokens(self):
        self.tokenizer = many_words(70_000)
        self.save(self.tokenizer)
        file = self.write("a.txt", "w69999 w1")
        self.tokenize(file, end="69998")
        self.assertEqual(read_npy(self.out), ("<u4", [69999, 1, 69998]))
        out = self.path("c.bin")
        self.tokenize(file, out=out, end="none")
        with open(self.path("c.idx"), "rb") as f:
            self.assertEqual(struct.unpack("<QBQQ", f.read(34)[9:]), (1, 4, 1, 2))
        self.assertEqual(os.path.getsize(out), 8)
        os.remove(self.out)
        self.assertIn("tokens up to 69999", self.refused("--dtype", "uint16", file,
                                                         end="none"))
        self.save(byte_level())
        self.tokenize("--dtype", "uint32", file)
        self.assertEqual(read_npy(self.out)[0], "<u4")

    def test_end_of_text(self):
        file = self.write("a.txt", "a")
        self.assertIn("no such token", self.refused(file, end="</s>"))
        self.assertIn("greatest token", self.refused(file, end="400"))
        self.assertIn("no such token", self.refused(file, end="4" * 5000))
        self.assertIn("choose one", self.refused(file, end=None))
        self.write("model/config.json", "[" * 100_000)
        self.assertIn("config.json: is nested too deep", self.refused(file, end=None))
        for name, content, expected in (
            ("config.json", {"eos_token_id": [0, 9]}, 0),
            ("config.json", {"eos_token_id": 7}, 7),
            ("tokenizer_config.json", {"eos_token": {"content": "b"}}, None),
            ("tokenizer_config.json", {"eos_token": END}, self.end),
        ):
            self.objects(os.path.join("model", name), content)
            result = self.run_script("--out", self.out, file)
            self.assertEqual(result.returncode, 0, result.stderr.decode())
            expected = self.tokenizer.token_to_id("b") if expected is None else expected
            self.assertEqual(read_npy(self.out)[1][-1], expected)

    def test_wrong_fields_of_the_model_are_named(self):
        file = self.write("a.txt", "a")
        for name, content, expected in (
            ("config.json", [], "is not a JSON object"),
            ("config.json", {"eos_token_id": []}, "eos_token_id is [], not the id"),
            ("config.json", {"eos_token_id": "0"}, "eos_token_id is '0', not the id"),
            ("config.json", {"eos_token_id": [-1]}, "eos_token_id is -1, not the id"),
            ("config.json", {"eos_token_id": True}, "eos_token_id is True, not the id"),
            ("tokenizer_config.json", [], "is not a JSON object"),
            ("tokenizer_config.json", {"eos_token": 5}, "eos_token is 5, not a string"),
            ("tokenizer_config.json", {"eos_token": {"content": []}},
             "eos_token is [], not a string"),
        ):
            self.objects(os.path.join("model", name), content)
            self.assertIn(f"{name}: {expected}", self.refused(file, end=None))
        self.objects("model/tokenizer_config.json", {"eos_token": "\ud800"})
        self.assertIn("no such token", self.refused(file, end=None))

    def test_prompts_and_completions(self):
        pairs = [("Question: 2+2?", " Four."), ("trav", "el"), ("", "a"), ("b", "")]
        rows = [{"prompt": p, "completion": c} for p, c in pairs]
        fields = "--prompt-field", "prompt", "--completion-field", "completion"
        self.tokenize(*fields, self.objects("a.jsonl", *rows))
        tokens, mask = read_npy(self.out)[1], read_npy(self.path("out.mask.npy"))
        self.assertEqual(mask[0], "|u1")
        expected, counted = [], []
        for prompt, completion in pairs:
            first = self.ids(prompt)[:-1]
            both = self.ids(prompt + completion)
            rest = both[len(first):] if both[:len(first)] == first else (
                self.ids(completion))
            expected += first + rest
            counted += [0] * len(first) + [1] * len(rest)
        self.assertEqual(tokens, expected)
        self.assertEqual(mask[1], counted)
        self.tokenize(*fields, self.objects("a.jsonl", *rows), out=self.path("x.bin"))
        self.assertEqual(read_npy(self.path("x.mask.npy"))[1], counted)
        self.assertIn("no prompts", self.refused(*fields, self.write("a.txt", "a")))

    def test_wrong_rows_are_named(self):
        good = json.dumps({"text": "a"}) + "\n"
        for line, expected in (
            ('{"body": "a", "id": 1}', "has no field 'text' (its fields: body, id)"),
            ('{"text": 1}', "field 'text' is of type int, not a string"),
            ('{"text": "a\\ud800"}', "field 'text' has half of a surrogate pair"),
            ('{"text": "a"', "is not JSON"),
            ("[1]", "is not a JSON object"),
            ("[" * 100_000, "is nested too deep"),
        ):
            message = self.refused(self.write("a.jsonl", good * 2 + "\n" + line))
            self.assertIn("a.jsonl:4: " + expected, message)
        message = self.refused(self.write("a.jsonl", good.encode() + b'{"text": "\xff"}'))
        self.assertIn("a.jsonl:2: ", message)

    def test_bad_rows_are_skipped_and_counted(self):
        rows = [{"text": text} for text in LINES]
        file = self.objects("a.jsonl", rows[0], {"text": None}, *rows[1:], {"body": "a"})
        with open(file, "ab") as f:
            f.write(b'{"text": "\xff"}\n[\n')
        result = self.run_script("--out", self.out, "--end-of-text", END, "--skip-bad", file)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        self.assertEqual(read_npy(self.out)[1], self.ids(*LINES))
        self.assertIn("skipped 4 bad rows, the first: " + file + ":2: field 'text' is of "
                      "type NoneType, not a string", self.one_line(result))
        if pyarrow is not None:
            table = pyarrow.table({"text": [LINES[0], None, LINES[1]]})
            parquet.write_table(table, self.path("a.parquet"))
            self.tokenize("--skip-bad", self.path("a.parquet"))
            self.assertEqual(read_npy(self.out)[1], self.ids(*LINES[:2]))

    def message_of_kept_run(self, *arguments, out=None):
        """The message of a run that keeps something."""
        result = self.run_script("--out", out or self.out, "--end-of-text", END, *arguments)
        self.assertEqual(result.returncode, 1, result.stderr.decode())
        return self.one_line(result)

    def test_documents_before_a_bad_row_are_kept(self):
        rows = [{"text": text} for text in LINES]
        wrong = rows[:2] + [{"text": None}] + rows[3:]
        for out in self.out, self.path("corpus.bin"):
            file = self.objects("a.jsonl", *wrong)
            message = self.message_of_kept_run(file, out=out)
            self.assertIn("a.jsonl:3: field 'text' is of type NoneType, not a string; "
                          "--skip-bad goes on without such rows; 2 documents before are "
                          "kept: --resume goes on behind them", message)
            # Not yet corrected: they are still kept.
            self.assertIn("2 documents", self.message_of_kept_run("--resume", file, out=out))
            self.objects("a.jsonl", *rows)
            self.assertIn("4 documents", self.tokenize("--resume", file, out=out))
            with open(out, "rb") as f:
                resumed = f.read()
            self.tokenize(file, out=self.path("whole" + out[-4:]))
            with open(self.path("whole" + out[-4:]), "rb") as f:
                self.assertEqual(f.read(), resumed)
            self.assertNotIn(".kept", " ".join(os.listdir(self.folder)))
        with open(self.path("corpus.idx"), "rb") as f, (
                open(self.path("whole.idx"), "rb")) as whole:
            self.assertEqual(f.read(), whole.read())

    def test_long_and_several_files_are_resumed(self):
        text = long_text(300_000)
        first = self.write("a.txt", text)
        second = self.write("b.txt", text.encode() + b"\xff")
        self.assertIn("1 documents before are kept", self.message_of_kept_run(first, second))
        self.write("b.txt", text + "more")
        self.tokenize("--resume", first, second)
        self.assertTrue(read_npy(self.out)[1] == self.ids(text, text + "more"))

    def test_pairs_are_resumed(self):
        rows = [{"a": text, "b": " b"} for text in LINES]
        fields = "--prompt-field", "a", "--completion-field", "b"
        file = self.objects("a.jsonl", *rows[:3], {"a": "x"})
        self.assertIn("3 documents before", self.message_of_kept_run(*fields, file))
        self.objects("a.jsonl", *rows)
        self.tokenize(*fields, "--resume", file)
        resumed = read_npy(self.out), read_npy(self.path("out.mask.npy"))
        self.tokenize(*fields, file)
        self.assertEqual((read_npy(self.out), read_npy(self.path("out.mask.npy"))),
                         resumed)

    def test_documents_before_a_signal_are_kept(self):
        lines = [json.dumps({"text": text}) + "\n" for text in LINES * 2500]
        pipe, whole = self.path("pipe.jsonl"), self.write("a.jsonl", "".join(lines))
        os.mkfifo(pipe)
        self.tokenize(whole)
        expected = read_npy(self.out)
        for number in signal.SIGTERM, signal.SIGHUP, signal.SIGINT:
            run = subprocess.Popen(
                [sys.executable, SCRIPT, "--tokenizer", self.model, "--end-of-text", END,
                 "--out", self.out, pipe], stderr=subprocess.PIPE)
            with open(pipe, "w") as rows:  # which does not end
                rows.writelines(lines)
                rows.flush()
                partial = f"{self.out}.{run.pid}.partial"
                until = time.monotonic() + 60
                while os.path.getsize(partial) < 1 << 16 and time.monotonic() < until:
                    time.sleep(0.01)
                run.send_signal(number)
                errors = run.communicate(timeout=60)[1].decode()
            self.assertEqual(run.returncode, 128 + number, errors)
            self.assertRegex(errors, "tokenize: interrupted; [0-9]+ documents before are kept")
            self.tokenize("--resume", whole)
            self.assertTrue(read_npy(self.out) == expected)
            self.assertNotIn("out.npy.", " ".join(os.listdir(self.folder)))

    def test_what_killed_runs_have_left_is_removed(self):
        left = self.write("out.npy.1.partial", "left"), self.write("out.npy.2.partial", "")
        with open(left[1], "rb") as running:
            fcntl.flock(running, fcntl.LOCK_EX)
            self.tokenize(self.write("a.txt", "text"))
        self.assertEqual([*map(os.path.exists, left)], [False, True])

    def test_what_is_kept_must_fit(self):
        bad = {"text": 1}
        file = self.objects("a.jsonl", {"text": "a"}, bad)
        self.assertIn("is missing: no run was interrupted", self.message_of_kept_run("--resume", file))
        self.message_of_kept_run(file)
        before = sorted(os.listdir(self.folder))
        self.assertIn("another field", self.message_of_kept_run("--resume", "--text-field", "b", file))
        self.objects("a.jsonl", {"text": "b"}, {"text": "c"})
        self.assertIn("are not those of the files", self.message_of_kept_run("--resume", file))
        self.assertIn("are not those of the files", self.message_of_kept_run(
            "--resume", self.write("c.jsonl", "")))
        os.remove(self.path("c.jsonl"))
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.write("out.npy.kept.json", "{}")
        self.assertIn("another program has changed it", self.message_of_kept_run("--resume", file))
        self.tokenize(file)
        self.assertNotIn(".kept", " ".join(os.listdir(self.folder)))

    def test_wrong_files_are_named(self):
        for name in "a.txt.gz", "a.jsonl.gz":
            packed = gzip.compress(b'{"text": "some"}\n' * 99)
            for wrong in packed[:-12], packed[:30] + b"?" + packed[31:], b"plain":
                with open(self.path(name), "wb") as f:
                    f.write(wrong)
                self.assertIn(name, self.refused(self.path(name)))
        self.assertIn("not UTF-8", self.refused(self.write("a.txt", b"a\xffb")))
        self.assertIn("not UTF-8", self.refused(self.write("a.txt", b"\xc3")))
        self.assertIn("none of .txt", self.refused(self.write("a.csv", "a")))
        self.assertIn("missing.txt", self.refused(self.path("missing.txt")))
        self.assertIn("no text", self.refused(self.write("a.txt", ""), end="none"))
        self.write("model/tokenizer.json", "{}")
        self.assertIn("is no tokenizer", self.refused(self.path("a.csv")))
        self.save(Tokenizer(models.BPE()))
        self.assertIn("tokenizer.json: has no tokens", self.refused(self.path("a.csv")))
        self.model = self.folder
        self.assertIn("AutoTokenizer", self.refused(self.path("a.csv")))

    def test_texts_without_tokens_are_refused(self):
        self.save(Tokenizer(models.WordLevel({"a": 0})))
        fields = "--prompt-field", "a", "--completion-field", "b"
        for arguments in (
            [self.write("a.txt", "unknown")],
            [self.write("b.txt", long_text(200_000))],
            [*fields, self.objects("c.jsonl", {"a": "a", "b": "unknown"})],
        ):
            self.assertIn("the tokenizer cannot encode the texts: WordLevel error",
                          self.refused(*arguments, end="none"))

    def test_decoding(self):
        text = long_text(60_000)
        self.tokenize(self.write("a.txt", text))
        decoded = self.run_script("--decode", self.out).stdout.decode()
        self.assertTrue(decoded == text + END)
        ids = " ".join(map(str, self.ids(LINES[2]))).replace(" ", "\n", 3).encode()
        for encoding in "utf-8", "ascii":
            decoded = self.run_script("--decode", input=ids, PYTHONIOENCODING=encoding)
            self.assertEqual(decoded.stdout.decode(), LINES[2] + END)
        ids = b"--- prompt 1\n" + ids + b"\n--- prompt 2\n" + ids + b"\n"
        decoded = self.run_script("--decode", input=ids)
        self.assertEqual(
            decoded.stdout.decode(),
            "--- prompt 1\n" + LINES[2] + END + "\n--- prompt 2\n" + LINES[2] + END)
        for wrong, expected in (
            (b"1 x", "'x'"),
            (b"--- prompt 1\n1 400", "token 1 is 400"),
            (b"1" * 5000, "is not a token id"),
            (b"\xff", "is not a token id"),
        ):
            result = self.run_script("--decode", input=wrong, PYTHONIOENCODING="utf-8")
            self.assertEqual(result.returncode, 1)
            self.assertIn(expected, self.one_line(result))

    def decoding_refused(self, path):
        result = self.run_script("--decode", path)
        self.assertEqual(result.returncode, 1, result.stderr.decode())
        self.assertEqual(result.stdout, b"")
        return self.one_line(result)

    def test_wrong_npy_files_are_named(self):
        for version in b"\1\0", b"\2\0", b"\3\0":
            result = self.run_script("--decode", self.write("a.npy", npy(version=version)))
            self.assertEqual(result.stdout.decode(), self.tokenizer.decode([1, 2]), result.stderr)
        for wrong, expected in (
            (b"", "is not a .npy file"),
            (b"text", "is not a .npy file"),
            (b"\x93NUMPY", "is not a .npy file"),
            (npy()[:9], "is cut off within its .npy header"),
            (npy()[:40], "is cut off within its .npy header"),
            (npy(version=b"\2\0")[:20], "is cut off within its .npy header"),
            (npy(version=b"\1\1"), "is a .npy file of version 1.1"),
            (npy(version=b"\4\0"), "is a .npy file of version 4.0"),
            (npy().replace(b"descr", b"other"), "has a .npy header without a plain item"),
            (npy("[('a', '<u2')]"), "has a .npy header without a plain item type"),
            (npy("('<u2', (2,))"), "has a .npy header without a plain item type"),
            (npy("7"), "has a .npy header without a plain item type"),
            (npy("'<f4'"), "has items of type '<f4'; token ids are of |u1, <u2"),
            (npy("'|O'"), "has items of type '|O'"),
            (npy("'>u2'"), "has items of type '>u2'"),
            (npy("'\n'"), "has items of type '\\n'"),
            (npy().replace(b"shape", b"other"), "has no shape such as (3,)"),
            (npy(shape="()"), "has no shape such as (3,)"),
            (npy(shape="(1, 2)"), "has no shape such as (3,)"),
            (npy(shape="(-2,)"), "has no shape such as (3,)"),
            (npy(shape="2"), "has no shape such as (3,)"),
            (npy(shape="('2',)"), "has no shape such as (3,)"),
            (npy(shape="(" * 10_000), "has no shape such as (3,)"),
            (npy()[:-1], "2 tokens (4 bytes) are announced, but 3 bytes are there"),
            (npy() + b"x", "2 tokens (4 bytes) are announced, but 5 bytes are there"),
            (npy(shape="(999999999999999,)"), "999999999999999 tokens ("),
        ):
            message = self.decoding_refused(self.write("a.npy", wrong))
            self.assertIn("a.npy: " + expected, message)
        os.remove(self.path("a.npy"))
        self.assertIn("a.npy", self.decoding_refused(self.path("a.npy")))
        os.mkdir(self.path("a.npy"))
        self.assertIn("a.npy", self.decoding_refused(self.path("a.npy")))

    def test_wrong_megatron_files_are_named(self):
        tokens = self.path("a.bin")
        self.tokenize(self.write("a.txt", LINES[0]), out=tokens)
        with open(self.path("a.idx"), "rb") as f:
            index = f.read()
        for wrong, expected in (
            (b"", "is not an index of Megatron-LM"),
            (index[:17], "is not an index of Megatron-LM"),
            (b"x" * 99, "is not an index of Megatron-LM"),
            (index[:9] + b"\2" + index[10:], "is an index of version 2"),
            (index[:17] + b"\6" + index[18:], "its tokens have type 6"),
            (index[:-1], "1 sequences and 2 documents (28 bytes) are announced, but 27"),
            (index[:18] + b"\xff" * 8 + index[26:], f"{2**64 - 1} sequences and"),
        ):
            self.write("a.idx", wrong)
            self.assertIn("a.idx: " + expected, self.decoding_refused(tokens))
        for count in -5, 0, 3, 2**31 - 1:
            self.write("a.idx", index[:34] + struct.pack("<i", count) + index[38:])
            self.assertIn(f"a.bin: {count} tokens ({2 * count} bytes) are announced, "
                          f"but {os.path.getsize(tokens)} bytes are there",
                          self.decoding_refused(tokens))
        self.write("a.idx", index + b"x")  # as of Megatron-LM's sequences with modes
        self.assertEqual(self.run_script("--decode", tokens).returncode, 0)
        os.remove(self.path("a.idx"))
        self.assertIn("a.bin: ends within a token",
                      self.decoding_refused(self.write("a.bin", b"abc")))
        os.mkdir(self.path("a.idx"))
        self.assertIn("a.idx", self.decoding_refused(tokens))


if __name__ == "__main__":
    unittest.main()
