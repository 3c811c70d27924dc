"""The APIs that the guard understands, by the path a request comes in on."""

from typing import Final

from service.core.dialects.openai_chat import OpenAIChat
from service.core.dialects.protocol import Dialect
from service.core.dialects.sglang_generate import SGLangGenerate

OPENAI_CHAT: Final[Dialect] = OpenAIChat()
SGLANG_GENERATE: Final[Dialect] = SGLangGenerate()

DIALECTS: Final[dict[bytes, Dialect]] = {dialect.path: dialect for dialect in (OPENAI_CHAT, SGLANG_GENERATE)}
