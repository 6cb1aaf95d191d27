"""`openclaw install | status | uninstall`: the plugin in the memory slot of the chat runtime."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from config.source.discover import discover
from gateway.cli import output
from gateway.cli.options import CommandLineError, Options, openclaw_request

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.cli import arguments as typed
    from gateway.openclaw.installation import InstallPlan, InstallState, Outcome
    from gateway.openclaw.program import OpenClawHost

_RECALL = (
    "It will read each prompt and put before it what the notes likely answer (at most 400 tokens): for that OpenClaw asks a "
    "permission, plugins.entries.memory-gateway.hooks.allowConversationAccess, which is set. Groups that scope "
    "denies are shown nothing. Uninstalling takes it back."
)


def install_plugin(
    options: Options,
    *,
    openclaw: typed.OpenClawCommand = None,
    yes: typed.Yes = False,
    recall: typed.RecallInHost = False,
) -> int:
    """Put this program into OpenClaw's memory slot, as a plugin."""
    from gateway.openclaw.installation import allow_recall, install, plan_installation

    host, state = _found(options, openclaw)
    plan = plan_installation(host, state)
    if not options.json:
        for line in _plan_lines(plan):
            output.say(line)
        if recall:
            output.say(_RECALL)
    if not (yes or output.agreed("Nothing was changed")):
        return os.EX_OK
    known = install(host, state, plan)
    if recall:
        allow_recall(host)
    return output.answer(
        options,
        {"plan": plan, "loaded": True, "tools": known.get("tools", [])},
        "OpenClaw loads the plugin into its memory slot.",
        "If its gateway runs, restart it: openclaw gateway restart",
        "Back again: memory-gateway openclaw uninstall",
    )


def plugin_status(options: Options, *, openclaw: typed.OpenClawCommand = None) -> int:
    """Show whether OpenClaw loads the plugin, and which."""
    from gateway.openclaw.installation import read_state

    host, place = _found(options, openclaw)
    state = read_state(host, place)
    code = os.EX_OK if state.loaded and not state.problems else 1
    return output.answer(options, state, *_state_lines(state), code=code)


def uninstall_plugin(
    options: Options, *, openclaw: typed.OpenClawCommand = None, yes: typed.Yes = False
) -> int:
    """Take the plugin out of OpenClaw, and put its configuration back as it was."""
    from gateway.openclaw.installation import uninstall

    host, state = _found(options, openclaw)
    if not options.json:
        output.say(
            "OpenClaw forgets the plugin; its own memory, or who had the slot before, answers again."
        )
        output.say("Notes, index and settings of memory stay.")
    if not (yes or output.agreed("Nothing was changed")):
        return os.EX_OK
    outcome = uninstall(host, state)
    return output.answer(options, outcome, _outcome_line(outcome), *outcome.remarks)


def _found(options: Options, openclaw: str | None) -> tuple[OpenClawHost, Path]:
    from gateway.openclaw.program import find_host, host_overlay

    if options.notes is not None:
        raise CommandLineError(
            "--notes and OpenClaw do not go together.",
            remedy="Leave it out: the plugin serves the workspaces of OpenClaw's agents.",
        )
    overlay = host_overlay(options.state_dir, options.config)
    host = find_host(os.environ, openclaw, overlay, output.note)
    return host, discover(openclaw_request(options)).state_dir


def _plan_lines(plan: InstallPlan) -> list[str]:
    now = f"now {plan.slot}" if plan.slot else "now OpenClaw's own"
    lines = [
        f"OpenClaw {plan.openclaw}, Node.js {plan.node}, configuration {plan.config}",
        "",
        f"  1. The plugin is copied to {plan.plugin}.",
        "  2. OpenClaw links it, accepts what it declares (two tools, two commands), and sets",
        f"     plugins.slots.memory ({now}) to memory-gateway.",
        f"     For each agent that is used it will start: {' '.join(plan.command)} serve",
        "  3. OpenClaw loads it once, to see that it works.",
        "",
        "The configuration is kept as it is; `memory-gateway openclaw uninstall` puts it back.",
    ]
    if plan.loses_comments:
        lines.append("OpenClaw drops its comments when it writes it; they come back with it.")
    if plan.loses_link:
        lines.append(
            "It is a link, which OpenClaw replaces by a file; the link comes back with it."
        )
    if plan.loses_attributes:
        names = ", ".join(plan.loses_attributes)
        lines.append(f"OpenClaw drops its extended attributes ({names}); they come back with it.")
    if plan.names > 1:
        lines.append(
            f"It has {plan.names} names (hard links): the others keep what it says now, and it stays a file of its own."
        )
    return lines


def _state_lines(state: InstallState) -> list[str]:
    lines = [
        f"OpenClaw {state.openclaw}, Node.js {state.node}, configuration {state.config}",
        f"plugin: {'loaded into the memory slot' if state.loaded else 'not loaded'}"
        + (f", {state.version} from {state.plugin}" if state.plugin else ""),
    ]
    if state.config_problem:
        lines.append(f"The configuration is not valid: {state.config_problem}")
    lines += [f"  {problem}" for problem in state.problems]
    if not state.loaded:
        lines.append("`memory-gateway openclaw install` puts it there.")
    return lines


def _outcome_line(outcome: Outcome) -> str:
    return {
        "restored": f"{outcome.path} is byte for byte as it was before the installation.",
        "edited": "The configuration has changed since the installation, so only the plugin was taken out of it.",
        "untouched": "OpenClaw knows no plugin of this program; nothing was changed.",
    }[outcome.config]
