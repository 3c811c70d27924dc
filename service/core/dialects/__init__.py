"""The APIs that the guard understands, by the path a request comes in on."""

from typing import Final

from service.core.dialects.openai_chat import OpenAIChat
from service.core.dialects.protocol import Dialect

OPENAI_CHAT: Final[Dialect] = OpenAIChat()

DIALECTS: Final[dict[bytes, Dialect]] = {dialect.path: dialect for dialect in (OPENAI_CHAT,)}
