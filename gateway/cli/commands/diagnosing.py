"""`doctor`: what is wrong, where, and what mends it."""

from __future__ import annotations

from functools import partial

from gateway.cli import output
from gateway.cli.exit_codes import HEALTH_CODES
from gateway.cli.options import Options


def doctor(options: Options) -> int:
    """Find what is wrong and say how to fix it; exit code 0 ok, 1 degraded, 2 failing."""
    import anyio

    from gateway.cli.loading import load
    from gateway.doctor.diagnosing import diagnose
    from gateway.process.logs import configure_logs

    # The findings say what warnings would.
    configure_logs(options.log_level or "error", for_people=not options.json)
    diagnosis = anyio.run(diagnose, partial(load, options))
    if options.json:
        output.write_json(diagnosis)
    else:
        from gateway.cli.rendering.diagnosis import diagnosis_lines
        from gateway.cli.terminal import print_lines

        print_lines(diagnosis_lines(diagnosis))
    return HEALTH_CODES[diagnosis.status]
