"""Follows what is known of values through a traced program, its branches and its loops."""

from collections.abc import Sequence
from functools import reduce
from itertools import count
from typing import Any

from jax.extend.core import Literal

from aotc.capture.jax_private import Chain, nested_jaxprs

type State = Any

CALLS = frozenset({"jit", "pjit", "closed_call", "remat2", "checkpoint", "custom_jvp_call"}) | {
    *("custom_vjp_call", "custom_vmap_call", "composite", "shard_map")
}
"""Equations that call the first jaxpr among their parameters."""

NESTING = CALLS | {"cond", "scan", "while"}


class Flow:
    """Follows states through a jaxpr and its nested ones, loops until nothing changes.

    By itself, it knows nothing: a state is None, but for literals and constants.
    """

    def known(self, value: Any) -> State:
        """Return the state of a literal or a constant."""
        return value

    def transfer(self, chain: Chain, given: Sequence[State]) -> Sequence[State]:
        """Return the states of an equation's results, from those of its operands."""
        return [None] * len(chain[0].outvars)

    def join(self, one: State, other: State) -> State:
        """Return the state of a value that is either; `one` itself, if nothing else is known."""
        return one if one is other else None

    def under(self, chain: Chain, given: Sequence[State], made: Sequence[State]) -> Sequence[State]:
        """Return the states of what branches or a loop have made, by what decides about them."""
        return made

    def branches(self, index: State, every: Sequence[Any]) -> Sequence[Any]:
        """Return the branches that may be taken."""
        return every

    def in_loop(self, chain: Chain, state: State) -> State:
        """Return the state of what each step of a loop changes."""
        return state

    def after(self, step: int, one: State, other: State) -> State:
        """Return the state after a step, from those before and after it."""
        return self.join(one, other)

    def ends(self, test: State) -> tuple[bool, bool]:
        """Return whether a loop may end, and whether it may go on."""
        return True, True

    def run(self, jaxpr: Any, given: Sequence[State], outer: Chain = ()) -> list[State]:
        """Return the states of a jaxpr's results, from those of its inputs."""
        values = (*map(self.known, getattr(jaxpr, "consts", ())), *given)
        held = dict(zip((*jaxpr.constvars, *jaxpr.invars), values, strict=True))

        def read(atom: Any) -> State:
            return self.known(atom.val) if isinstance(atom, Literal) else held[atom]

        for equation in jaxpr.eqns:
            made = self.results((equation, *outer), [*map(read, equation.invars)])
            held.update(zip(equation.outvars, made, strict=True))
        return [*map(read, jaxpr.outvars)]

    def goes_on(
        self, chain: Chain, given: Sequence[State], carry: Sequence[State], step: int
    ) -> State:
        """Return the state of whether a loop takes a step."""
        params = chain[0].params
        if chain[0].primitive.name == "while":
            tests = given[: params["cond_nconsts"]]
            return self.run(params["cond_jaxpr"].jaxpr, [*tests, *carry], chain)[0]
        length = params["length"]
        return self.known(step < length) if isinstance(length, int) else None

    def results(self, chain: Chain, given: Sequence[State]) -> Sequence[State]:
        """Return the states of an equation's results, by its nested jaxprs if it has some."""
        equation, params = chain[0], chain[0].params
        name, inner = equation.primitive.name, [*nested_jaxprs(equation)]
        if name == "cond":
            taken = self.branches(given[0], inner)
            every = zip(*(self.run(each, given[1:], chain) for each in taken), strict=True)
            return self.under(chain, given, [reduce(self.join, each) for each in every])
        if name == "while":
            first = params["cond_nconsts"]
            last = first + params["body_nconsts"]
            parts = given[first:last], given[last:], ()
            made = self._loop(chain, given, params["body_jaxpr"].jaxpr, parts)
            return self.under(chain, given, made)
        if name == "scan":
            (body,) = inner
            last = sum(map(_is_alike, equation.invars, body.invars))
            first = last - sum(map(_is_alike, equation.outvars, body.outvars))
            return self._loop(chain, given, body, (given[:first], given[first:last], given[last:]))
        if name == "custom_linear_solve":
            *others, _ = params["const_lengths"]
            first, last = sum(others[:2]), sum(others)
            solved = [*given[first:last], *given[sum(params["const_lengths"]) :]]
            return self.run(params["jaxprs"].solve.jaxpr, solved, chain)
        if name in CALLS:
            return self.run(inner[0], given, chain)
        return self.transfer(chain, given)

    def _loop(
        self,
        chain: Chain,
        given: Sequence[State],
        body: Any,
        parts: tuple[Sequence[State], ...],
    ) -> list[State]:
        """Return the states of what a loop carries, and stacks, after any number of steps.

        `parts` are constants, what a step takes of the one before, and of arrays.
        """
        constants, carry, taken = parts
        passed = zip(body.invars[len(constants) :], body.outvars, carry, strict=False)
        carry = [s if before is made else self.in_loop(chain, s) for before, made, s in passed]
        ended, stacked = list[State](), list[State]()
        for step in count():
            may_end, may_go_on = self.ends(self.goes_on(chain, given, carry, step))
            ended = [*map(self.join, ended or carry, carry)] if may_end else ended
            if not may_go_on:
                break
            made = self.run(body, [*constants, *carry, *taken], chain)
            rest = made[len(carry) :]
            stacked = [*map(self.join, stacked or rest, rest)]
            pairs = [*zip(carry, made, strict=False)]
            if all(self.join(one, other) is one for one, other in pairs):
                ended = [*map(self.join, ended or carry, carry)]
                break
            carry = [self.after(step, one, other) for one, other in pairs]
        empty = [self.known(0)] * (len(body.outvars) - len(carry))
        return [*ended, *(stacked or empty)]


def _is_alike(outer: Any, inner: Any) -> bool:
    return len(shape_of(outer)) == len(shape_of(inner))


def shape_of(variable: Any) -> tuple[Any, ...]:
    """Return the sizes of a variable; none of what is no array."""
    return getattr(variable.aval, "shape", ())
