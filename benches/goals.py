"""The table that each benchmark prints: what was the goal, what came out, and the ratio between the two."""

import math


def short(number):
    """Three digits, or all before the point."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


class Goals:
    """Goals with their results, in the order in which they were measured."""

    def __init__(self):
        self.rows = []

    def at_most(self, what, limit, result, unit, against=""):
        """The result must not be above the limit. `unit` follows both numbers."""
        self.add(what, f"≤ {short(limit)}{unit}{against}", result, unit, result / limit, result <= limit)

    def at_least(self, what, limit, result, unit, against=""):
        """The result must not be below the limit."""
        self.add(what, f"≥ {short(limit)}{unit}{against}", result, unit, result / limit, result >= limit)

    def add(self, what, goal, result, unit, ratio, is_reached):
        known = not math.isnan(result)
        self.rows.append((what, goal, f"{short(result)}{unit}" if known else "not measured", ratio if known else None,
                          is_reached and known))

    def print(self):
        """Prints one table. Nothing is asserted: figures depend on the machine and on what else it does."""
        print("| what | goal | result | result / goal | reached |\n|---|--:|--:|--:|---|")
        for what, goal, result, ratio, is_reached in self.rows:
            shown, reached = ("–", "–") if ratio is None else (f"{ratio:.2f}", "yes" if is_reached else "**no**")
            print(f"| {what} | {goal} | {result} | {shown} | {reached} |")
