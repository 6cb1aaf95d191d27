"""The arguments and options of each command, beside the shared options: names, bounds and help.

Commands import these types only for the type checker, and `app` resolves them: a command that runs without typer does
not import it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def _clients(typed: str) -> list[str]:
    """Returns the clients whose names begin with what was typed into a shell."""
    from gateway.connect.clients import CLIENTS

    return [name for name in CLIENTS if name.startswith(typed)]


# fmt: off

# In several commands.

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print on a terminal what a pipe gets.")]
OnlyTags = Annotated[list[str] | None,
    typer.Option(metavar="TAG", help="Only notes with this tag; may be repeated.")]

# Asking: search, get, recent, links, open, recall, remember.

Query = Annotated[list[str] | None,
    typer.Argument(metavar="QUERY", help="What to look for, in any words; none with --tag lists notes.")]
MaxResults = Annotated[int | None,
    typer.Option("--max-results", min=1, metavar="N", help="At most this many passages; or -n N.")]
MinScore = Annotated[float | None,
    typer.Option(min=0, max=1, metavar="X", help="Leave out passages with a lower score.")]
OnlySource = Annotated[Literal["memory", "sessions"] | None,
    typer.Option("--source", "-s", help="Search only notes, or only past conversations.")]
Include = Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Only paths that match; may be repeated.")]
Exclude = Annotated[list[str] | None, typer.Option(metavar="GLOB", help="No paths that match; may be repeated.")]
After = Annotated[str | None, typer.Option("--after", "--since", metavar="DAY",
    help="Notes of this day or later: 2026-02-08, today or yesterday.")]
Before = Annotated[str | None, typer.Option(metavar="DAY", help="Notes from before this day.")]
Days = Annotated[int | None, typer.Option(min=1, metavar="N", help="Notes of the last N days, today included.")]
Explain = Annotated[bool, typer.Option("--explain", "-e", help="Say why each passage was found.")]
Full = Annotated[bool, typer.Option("--full", help="On a terminal: all of each passage.")]
Context = Annotated[int | None, typer.Option("--context", "-C", min=0, max=1000, metavar="N",
    help="On a terminal: N lines of the note before and after the best one.")]
OnlyFiles = Annotated[bool, typer.Option("--files", "-l", help="Print the paths of the notes alone.")]
Form = Annotated[str | None,
    typer.Option("--format", metavar="TEXT", help="Print a line a passage, such as '{path}:{line}: {text}'.")]
LinkEditor = Annotated[str | None,
    typer.Option(metavar="NAME", help="Where links lead: file, vscode, obsidian, ..., none.")]
ReadPath = Annotated[str,
    typer.Argument(metavar="PATH", help="As `search` shows it, with or without lines: MEMORY.md, MEMORY.md:14-16.")]
FirstLine = Annotated[int | None, typer.Option("--from", min=1, metavar="LINE", help="First line to show.")]
LineCount = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many lines to show.")]
MostNotes = Annotated[int, typer.Option("--max-results", min=1, metavar="N", help="At most this many; or -n N.")]
NoteName = Annotated[str, typer.Argument(metavar="NOTE", help="A path, or a name, title or alias of a note.")]
NoteOrNumber = Annotated[str,
    typer.Argument(metavar="NOTE", help="The number of a hit of the last search, or a note.")]
AtLine = Annotated[int, typer.Option("--line", min=1, metavar="LINE", help="Where to open it.")]
Program = Annotated[str | None,
    typer.Option(metavar="NAME", help="A program, or obsidian, vscode, ...; else $EDITOR.")]
EntryText = Annotated[list[str], typer.Argument(metavar="TEXT", help="What to write down.")]
LongTerm = Annotated[bool, typer.Option("--longterm", help="Append it to MEMORY.md instead.")]
MakeFolder = Annotated[bool, typer.Option("--yes", "-y", help="Make a folder for daily notes where none is.")]
Prompt = Annotated[list[str] | None, typer.Argument(metavar="PROMPT", help="What a person would say.")]
MaxTokens = Annotated[int, typer.Option(min=1, max=4000, metavar="N", help="At most about this many.")]
HookOf = Annotated[str | None, typer.Option(metavar="CLIENT",
    help="Answer an event of claude-code, codex, gemini or copilot on standard input, at once or not at all.")]
Stays = Annotated[bool, typer.Option("--serve", hidden=True, help="Stay for hooks: they start it so.")]

# Looking: status, health, config, metrics, report.

IndexFirst = Annotated[bool, typer.Option("--index", help="Bring the index up to date first.")]
Watch = Annotated[bool, typer.Option("--watch", help="Keep showing it until you interrupt.")]
Deep = Annotated[bool, typer.Option("--deep", help="Also try provider, vector engine and QMD; needs the network.")]
KeyWords = Annotated[list[str] | None, typer.Argument(metavar="[KEY | set KEY VALUE | unset KEY]",
    help="Show this setting and those below it, or all with this in their name; set one, or take it out.")]
Migrate = Annotated[bool, typer.Option("--migrate",
    help="Print the file with every key that today's OpenClaw refuses moved to where it accepts it.")]
WriteMigrated = Annotated[bool,
    typer.Option("--write", help="With --migrate: replace the file, and keep the old one beside it.")]
Textfile = Annotated[Path | None,
    typer.Option(metavar="FILE", help="Write it to this file, for the textfile collector of the node exporter.")]
PageFile = Annotated[Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the page to this file; - prints it.")]
Question = Annotated[str | None,
    typer.Option("--question", "-q", metavar="TEXT", help="Also search, and explain it.")]
WithText = Annotated[bool, typer.Option("--with-text", help="Put the text of the notes into the page, too.")]
Opens = Annotated[bool,
    typer.Option("--open", help="Open the page in the browser; without -o ~/memory-report.html.")]
ReplaceOther = Annotated[bool, typer.Option("--force", help="Replace a file that is no report.")]

# Keeping it in order: index, batch, models, qmd, store, forget, upgrade, serve, service.

IndexAll = Annotated[bool, typer.Option("--force", help="Index every file again, even unchanged ones.")]
JobNumber = Annotated[int,
    typer.Argument(metavar="JOB", max=2**63 - 1, help="The job's number, as `batch list` shows it.")]
ModelToPull = Annotated[str | None, typer.Argument(metavar="MODEL",
    help="A path, hf:org/repo/file.onnx[#revision] (or .gguf) or an http(s) address. "
    "Without it, the configured model.")]
ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="As `models list` shows it, by name or path.")]
InstallMissing = Annotated[bool,
    typer.Option("--yes", "-y", help="Install and download what is missing without asking.")]
QmdWords = Annotated[list[str] | None,
    typer.Argument(metavar="ARGS", help="`env`, or behind `--` what QMD is to do.")]
Driver = Literal["sqlite", "postgres"]
From = Annotated[Driver, typer.Option("--from", help="Where the index is.")]
To = Annotated[Driver, typer.Option("--to", help="Where it is to be.")]
Role = Annotated[str | None,
    typer.Option("--role", metavar="ROLE", help="Who may read and write rows, and make nothing.")]
UrlFrom = Annotated[str | None, typer.Option("--url-from", metavar="VARIABLE",
    help="The environment variable that holds the address to use instead of store.url.")]
AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="The agent whose rows go, configured or not.")]
ForgottenPath = Annotated[str | None,
    typer.Argument(metavar="PATH", help="As results show it: memory/2026-02-08.md, sessions/...")]
OlderThan = Annotated[str | None,
    typer.Option("--older-than", metavar="AGE", help="All that is dated so long ago: 90d, 12h.")]
ReleaseFile = Annotated[str | None,
    typer.Argument(metavar="[FILE]", help="The newer release, where it comes as a file.")]
RunIt = Annotated[bool, typer.Option("--yes", "-y", help="Run what it shows.")]
SocketOnly = Annotated[bool,
    typer.Option("--socket-only", help="Answer on the socket alone, as a service of its own.")]
WriteGranted = Annotated[bool, typer.Option("--write", help="Let this client's agent write into today's log.")]
ServiceAction = Annotated[Literal["install", "uninstall", "status"], typer.Argument(metavar="install|uninstall|status",
    help="Set it up and start it; stop and remove it; or show its state.")]

# Setting up: setup, connect, disconnect, openclaw.

NotesPath = Annotated[str | None, typer.Argument(metavar="DIR", help="The folder; else it is looked for.")]
FolderName = Annotated[str | None,
    typer.Option(metavar="NAME", help="Add DIR under this name, for `-n NAME`; the default stays.")]
Meaning = Annotated[bool | None,
    typer.Option("--meaning/--no-meaning", help="Install and download what search by meaning needs; --yes does not.")]
Clients = Annotated[bool | None,
    typer.Option("--clients/--no-clients", help="Connect the MCP clients that are found; --yes does.")]
Undo = Annotated[bool, typer.Option("--undo", help="Take back what setup did.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show it.")]
ClientName = Annotated[str | None, typer.Argument(metavar="CLIENT",
    help="claude-code, claude-desktop, codex, gemini, copilot, cursor, vscode, zed or windsurf.",
    autocompletion=_clients)]
ServerName = Annotated[str, typer.Option("--name", metavar="NAME", help="What the client calls this server.")]
OnlyPrint = Annotated[bool, typer.Option("--print", help="Only print what belongs there; for any client.")]
RecallInClient = Annotated[bool | None, typer.Option("--recall/--no-recall",
    help="Show the model before each prompt what memory says about it; --yes takes it.")]
WriteInClient = Annotated[bool | None,
    typer.Option("--write/--no-write", help="Let the agent write into today's log; --yes does not.")]
OpenClawCommand = Annotated[str | None,
    typer.Option("--openclaw", metavar="PROGRAM", help="OpenClaw's command; else that on PATH.")]
RecallInHost = Annotated[bool,
    typer.Option("--recall", help="Show the model before each turn what memory says about it.")]
