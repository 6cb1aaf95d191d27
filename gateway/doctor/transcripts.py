"""Whether the conversations that are to be searched can be read. Blocks for a moment."""

from __future__ import annotations

from collections.abc import Iterator

from backends.transcripts.agents import AgentTranscripts
from backends.transcripts.listing import HostDatabase, TranscriptListing
from config.settings import Settings
from gateway.doctor.finding import Finding, sentence


def check_transcripts(settings: Settings) -> Iterator[Finding]:
    """Nothing while transcripts are neither a source nor exported."""
    if "sessions" not in settings.search.sources and not settings.qmd.sessions.enabled:
        return
    listing = AgentTranscripts.of(settings).listing()
    for path, why, _ in listing.failures:
        place = path if path != "sessions" else str(settings.sessions_dir)
        yield Finding(
            check="transcripts",
            severity="warning",
            cause=sentence(f"Its conversations are not searched: {why}"),
            place=place,
            fix="Start the host once, see owner and mode of the file, or use a newer gateway.",
        )
    if not listing.failures:
        yield from _readable(listing, settings)


def _readable(listing: TranscriptListing, settings: Settings) -> Iterator[Finding]:
    database = listing.database
    yield Finding(
        check="transcripts",
        severity="ok",
        cause=f"Conversations that can be read: {len(listing.files):,}.",
        place=database.path if database else str(settings.sessions_dir),
    )
    if database is not None and not database.is_known:
        yield _untried(database)


def _untried(database: HostDatabase) -> Finding:
    return Finding(
        check="transcripts",
        severity="note",
        cause=f"The host's database is of version {database.version}, with which this gateway was"
        " not tried; it has the tables that are needed.",
        place=database.path,
        fix="Look whether there is a newer gateway.",
    )
