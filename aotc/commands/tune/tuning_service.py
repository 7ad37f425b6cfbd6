"""`aotc build --tune`: the tuner that measures on this host."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.base.errors import CompileError
from aotc.commands.tune.precision_search import choose_precisions
from aotc.commands.tune.tuning_search import search
from aotc.commands.tune.tuning_variants import cannot_run, unsuited
from aotc_runtime.schema.bundle_manifest import Target


class Measure:
    """Compiles every candidate, measures them on this host, and takes the best."""

    search = staticmethod(search)
    precisions = staticmethod(choose_precisions)

    def not_tuned(self, targets: Sequence[Target]) -> dict[str, str]:
        """Return the targets that this host cannot run, and why.

        Raises CompileError (AOTC-E911) if it can run none of them.
        """
        from aotc.compile.xla.native_target import describe_native

        host = describe_native()
        reasons = {t.name: reason for t in targets if (reason := unsuited(t, host))}
        if len(reasons) == len(targets):
            raise CompileError(*(cannot_run(name, reason) for name, reason in reasons.items()))
        return reasons
