"""The best sizes in one dimension that is padded, exactly, by dynamic programming.

A best set has its sizes among those asked for: a profile can shrink to the largest size it serves.
The sizes fall into runs, each served by its largest. With W(i, j) the weight of sizes i < … <= j
and C non-decreasing, the cost W(i, j) * C(j) of a run satisfies the quadrangle inequality

    cost(i, j) + cost(i', j') <= cost(i, j') + cost(i', j)    for i <= i' <= j <= j'

since the difference of the two sides is W(i, i') * (C(j) - C(j')) <= 0. So the best beginning of
the last run grows with its end, and every row of the table is filled by divide and conquer:
O(k n log n) (Galil and Park, 1992).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aotc.commands.profiles.traffic.call_cost import Costs


def best_runs(
    weights: NDArray[np.float64], costs: Costs, most: int
) -> list[tuple[list[int], float]]:
    """For 1, 2 … `most` profiles: the indices of the best ones, and what all requests cost then.

    weights: by size, in increasing order of size.  costs: of a call of each size, non-decreasing.
    The list is as long as more profiles can help: at most one for each size.
    """
    number = len(weights)
    before = np.concatenate([[0.0], np.cumsum(weights)])
    row = before[1:] * costs
    table: list[NDArray[np.int64]] = [np.zeros(number, dtype=np.int64)]
    found = [([number - 1], float(row[-1]))]
    for _ in range(1, min(most, number)):
        row, starts = _next_row(row, before, costs)
        table.append(starts)
        found.append((_trace_back(table, number), float(row[-1])))
    return found


def _next_row(
    row: Costs, before: NDArray[np.float64], costs: Costs
) -> tuple[Costs, NDArray[np.int64]]:
    """One more run. row[j]: least cost of sizes 0 … j so far; starts[j]: where its last run begins.

    A set with fewer runs than allowed is a set as well: the row never gets worse.
    """
    number = len(row)
    after, starts = row.copy(), np.zeros(number, dtype=np.int64)
    pending = [(1, number - 1, 1, number - 1)]
    starts[:] = -1
    while pending:
        low, high, first, last = pending.pop()
        if low > high:
            continue
        middle = (low + high) // 2
        begins = np.arange(first, min(last, middle) + 1)
        totals = row[begins - 1] + (before[middle + 1] - before[begins]) * costs[middle]
        best = int(totals.argmin())
        if totals[best] < row[middle]:
            after[middle] = totals[best]
            starts[middle] = begins[best]
        pending.append((low, middle - 1, first, int(begins[best])))
        pending.append((middle + 1, high, int(begins[best]), last))
    return after, starts


def _trace_back(table: list[NDArray[np.int64]], number: int) -> list[int]:
    ends: list[int] = []
    end = number - 1
    for starts in reversed(table[1:]):
        if starts[end] >= 0:
            ends.append(end)
            end = int(starts[end]) - 1
    return [*sorted([end, *ends])]
