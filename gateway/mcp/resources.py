"""Notes as resources, which people choose in their client, and the prompt that asks for a topic.

What is listed is what `session_start` would load for this conversation, and reading one goes through the same
door as `memory_get`: neither shows what those do not. Nobody is told of changes: days end without an event.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, unquote

from gateway.agent.conversations import Conversations
from gateway.agent.memory import Memory
from gateway.mcp.eras import Result
from gateway.rpc.registry import Session
from gateway.rpc.wire import InvalidParamsError
from gateway.sessions.loading import LoadedFile, Role
from gateway.tools.get import GetParams

_SCHEME: Final = "memory:///"
_MIME: Final = "text/markdown"
_TITLES: Final[dict[Role, str]] = {
    "longterm": "Long-term memory",
    "user": "About the user",
    "today": "Today's log",
    "yesterday": "Yesterday's log",
}
_PROMPT: Final = {
    "name": "remember",
    "title": "What do you remember about ...",
    "description": "Ask the memory for everything about a topic.",
    "arguments": [
        {"name": "topic", "description": "A person, a project, a day, anything.", "required": True}
    ],
}
MAX_TOPIC_CHARS: Final = 2000


async def list_resources(memory: Memory, session: Session) -> Result:
    """Only what is there; nothing for a conversation that may not read memory."""
    files = await Conversations(memory).files(session.session_key, session.guest)
    return {"resources": [_describe(one) for one in files if one.status == "ok"]}


def _describe(file: LoadedFile) -> dict[str, Any]:
    return {
        "uri": _SCHEME + quote(file.path),
        "name": file.path,
        "title": _TITLES[file.role],
        "mimeType": _MIME,
    }


async def read_resource(memory: Memory, uri: str, session: Session) -> Result:
    """Any path that `memory_get` reads. Raises InvalidParamsError, with the reason, for all others."""
    if not uri.startswith(_SCHEME):
        raise InvalidParamsError(f"There is no resource {uri[:200]!r}.", remedy=_REMEDY)
    params = GetParams(path=unquote(uri.removeprefix(_SCHEME)))
    answer = await memory.get(params, session.session_key, guest=session.guest)
    if answer.status != "ok":
        why = answer.error or f"There is no {params.path}."
        raise InvalidParamsError(why, remedy=_REMEDY)
    text = answer.text
    if answer.truncated:
        text += f"\n[... cut here; memory_get reads on from line {answer.next_line} ...]\n"
    return {"contents": [{"uri": uri, "mimeType": _MIME, "text": text}]}


_REMEDY: Final = "resources/list names those that there are."


def list_prompts() -> Result:
    return {"prompts": [_PROMPT]}


def get_prompt(name: str, arguments: dict[str, str]) -> Result:
    """Raises InvalidParamsError."""
    if name != _PROMPT["name"]:
        raise InvalidParamsError(
            f"There is no prompt {name[:64]!r}.", remedy=f"The only one is {_PROMPT['name']}."
        )
    topic = arguments.get("topic", "").strip()
    if not topic or len(topic) > MAX_TOPIC_CHARS:
        raise InvalidParamsError(
            f"The prompt needs a topic of at most {MAX_TOPIC_CHARS:,} characters.",
            remedy='Give arguments such as {"topic": "the boiler"}.',
        )
    text = (
        f"What do you remember about {topic}? Look it up with memory_search, in other words too if "
        "little is found, read around what matters with memory_get, and answer with the sources. "
        "Say what the notes do not tell."
    )
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": _PROMPT["description"], "messages": [message]}
