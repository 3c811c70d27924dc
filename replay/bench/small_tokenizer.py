"""A byte-level tokenizer in a folder, as aiperf and guidellm want one.

    small_tokenizer.py FOLDER

Runs in their environments, with their libraries; made of a few words, so that nothing need be downloaded.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # type: ignore[import-not-found]
from transformers import PreTrainedTokenizerFast  # type: ignore[import-not-found]

WORDS = "the quick brown fox jumps over the lazy dog while seven engineers read a long report"
END = "<s>"


def main(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, special_tokens=[END])
    tokenizer.train_from_iterator([WORDS], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, unk_token=END, pad_token=END
    )
    fast.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    fast.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
