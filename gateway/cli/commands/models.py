"""`models list`, `pull` and `remove`: the model files of local embeddings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli import output
from gateway.cli.exit_codes import NOT_FOUND
from gateway.cli.options import PROGRAM, Options

if TYPE_CHECKING:
    from providers.local.models.configured import ConfiguredModels

_HELP = "A path, hf:org/repo/file.gguf[#revision] or an http(s) address."


def list_models(options: Options) -> int:
    """Show the configured model and those that were downloaded."""
    from gateway.cli.rendering.models import model_lines
    from gateway.cli.terminal import print_lines
    from providers.local.models.shelf import shelf

    configured = _configured(options)
    items = shelf(configured)
    if options.json:
        output.write_json({"cacheDir": str(configured.cache_dir), "models": items})
    else:
        print_lines(model_lines(items))
    return os.EX_OK


def pull(
    options: Options,
    model: Annotated[
        str | None, typer.Argument(help=f"{_HELP} Without it, the configured model.")
    ] = None,
) -> int:
    """Download a model, or go on with a download that was interrupted."""
    import anyio

    from providers.local.models import locate
    from providers.local.models.references import parse_reference

    configured = _configured(options)
    model = model or configured.reference
    if locate(model, configured.cache_dir) is None and not options.json:
        output.note(f"Fetching {parse_reference(model)} ...")
    path = anyio.run(_pull, configured, model)
    if options.json:
        output.write_json({"path": str(path), "bytes": path.stat().st_size})
    else:
        output.say(str(path))
    return os.EX_OK


async def _pull(configured: ConfiguredModels, model: str) -> Path:
    from gateway.cli.progress import download_progress
    from providers.local.models import obtain
    from providers.local.models.references import parse_reference

    with download_progress(Path(str(parse_reference(model))).name) as progress:
        return await obtain(
            model,
            configured.cache_dir,
            environment=configured.environment,
            on_progress=progress,
        )


def remove(
    options: Options,
    model: Annotated[str, typer.Argument(help="As `models list` shows it, by name or path.")],
) -> int:
    """Remove a downloaded model, or what is there of it."""
    from gateway.cli.rendering.words import size
    from providers.local.models.shelf import remove as remove_model

    freed = remove_model(model, _configured(options).cache_dir)
    if options.json:
        output.write_json({"removed": freed > 0, "bytes": freed})
    elif freed:
        output.say(f"Removed {size(freed)}.")
    else:
        output.note(f"There is no downloaded model {model}; see `{PROGRAM} models list`.")
    return os.EX_OK if freed else NOT_FOUND


def _configured(options: Options) -> ConfiguredModels:
    from gateway.cli.loading import load
    from providers.local.models.configured import configured_models

    return configured_models(load(options), os.environ)
