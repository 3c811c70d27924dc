"""The tokenizer is written with the libraries of the clients' own environments; here those are fakes."""

import json
import subprocess
import sys
from pathlib import Path

from replay.bench.client_arms import TOKENIZER

FAKES = {
    "tokenizers.py": """
class Any:
    def __init__(self, *a, **k): pass
    def __call__(self, *a, **k): return Any()
    def __getattr__(self, name): return Any()
class Tokenizer(Any): pass
decoders = models = trainers = pre_tokenizers = Any()
""",
    "transformers.py": """
import pathlib
class PreTrainedTokenizerFast:
    def __init__(self, **k): self.words = k
    def save_pretrained(self, folder):
        pathlib.Path(folder).mkdir()
        (pathlib.Path(folder) / "template").write_text(self.chat_template + self.words["eos_token"])
""",
}


def test_a_folder_has_a_tokenizer_and_says_of_what_kind(tmp_path: Path) -> None:
    for name, code in FAKES.items():
        (tmp_path / name).write_text(code)
    folder = tmp_path / "tokenizer"
    command = [sys.executable, str(TOKENIZER), str(folder)]
    subprocess.run(command, check=True, env={"PYTHONPATH": str(tmp_path)}, timeout=50)
    assert json.loads((folder / "config.json").read_text()) == {"model_type": "gpt2"}
    assert (folder / "template").read_text().endswith("<s>")
