"""Frames on the pipe between gateway and worker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.runtime.worker import MAX_FRAME_BYTES, FrameReader, ProtocolError, frame
from fakes.each import each
from providers.local.worker import Cancel, Embed, Ping, Request

MESSAGES = st.lists(
    st.one_of(
        st.builds(Embed, st.integers(0, 1 << 40), st.just("query"), st.lists(st.text())),
        st.builds(Cancel, st.integers(0, 1 << 40)),
        st.just(Ping()),
    )
)


@given(MESSAGES, st.integers(1, 40))
def test_messages_arrive_whole_however_the_pipe_cuts_them(messages, size):
    data = b"".join(map(frame, messages))
    reader = FrameReader(Request)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert [found for piece in pieces for found in reader.feed(piece)] == messages


@each(
    "data",
    [(MAX_FRAME_BYTES + 1).to_bytes(4, "big"), b"\0\0\0\1\xc1", b"\0\0\0\4oops", b"llama_load: x"],
)
def test_what_is_no_frame_is_an_error(data):
    with pytest.raises(ProtocolError):
        list(FrameReader(Request).feed(data + bytes(100)))
