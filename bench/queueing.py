"""The ledger as a queue, beside queues that are nothing else."""

import sys
from contextlib import ExitStack
from dataclasses import replace

from bench import contenders
from bench.contenders import HERE, QUEUES, Installed
from bench.contest import complain, invited
from bench.database import Database, database
from bench.lanes import Lane, Plan, best, in_turn, lane, of_ledger, of_peer
from bench.measure import LOAD_CORE, SERVER_CORE, Effort
from bench.report import Bar, Of, Row, bar, figure_row
from bench.servers import ServerError, serving

ENQUEUE, WORK = "enqueue jobs", "claim, heartbeat, complete"
BATCHES, WORKERS = (10, 50, 100, 250, 500, 1000), (1, 4)
JOBS_A_SECOND = 4000
SLOW_JOBS_A_SECOND = 200
PROCRASTINATE = "procrastinate"
NOTES = {
    "pgqueuer": "deletes",
    PROCRASTINATE: "keeps the row",
}
OURS = "fenced, keeps history"
RUNS = 3
"""How many times over we have to be ahead of pgqueuer."""
AHEAD = bar(Of.RATIO, ">", 1.0)


def queue(effort: Effort) -> list[Row]:
    """pgqueuer comes first: with its best batch it is what the others are measured by. Ours has its best, too."""
    jobs = Plan(round(JOBS_A_SECOND * effort.seconds))
    able, rows_without = invited(WORK, QUEUES)
    with database() as postgres, ExitStack() as stack:
        lanes = [one for peer in able if (one := entered(stack, peer, postgres, jobs, effort))]
        sqlite = stack.enter_context(lane(f"toolyard, SQLite ({OURS})", jobs, of_ledger("sqlite:queue.db")))
        in_turn([sqlite], 1)  # to warm up; the others are by now
        ours = stack.enter_context(lane("toolyard, PostgreSQL", jobs, of_ledger(postgres.create())))
        lanes += [sqlite, at_its_best(ours, OURS)]
        runs = [in_turn(lanes, effort.loose_rounds) for _ in range(RUNS)]
    rows = compared(
        ENQUEUE, lanes, [[turn.enqueued for run in runs for turn in run[index]] for index in range(len(lanes))]
    )
    for number, run in enumerate(runs, 1):
        rows += compared(f"{WORK}, run {number}", lanes, [[turn.worked for turn in mine] for mine in run], AHEAD)
    return rows + rows_without


def entered(stack: ExitStack, peer: Installed, postgres: Database, jobs: Plan, effort: Effort) -> Lane | None:
    """Its queue, with the plan that suits it best."""
    slow = peer.name == PROCRASTINATE
    plan = Plan(round(SLOW_JOBS_A_SECOND * effort.seconds)) if slow else jobs
    try:
        one = stack.enter_context(lane(peer.name, plan, of_peer(peer, postgres.create())))
        if not slow:
            return at_its_best(one, NOTES[peer.name])
        one.turn()
        chosen = best(one, (10, 50), (1,), 1)
    except ServerError as error:
        complain(error)
        return None
    return replace(chosen, name=f"{peer.name}, {chosen.plan.batch} at once ({NOTES[peer.name]})")


def at_its_best(one: Lane, note: str) -> Lane:
    """With as many at once, by as many workers, as it is fastest with."""
    one.turn()  # to warm up
    chosen = best(one, BATCHES, WORKERS)
    return replace(chosen, name=f"{one.name}, {chosen.plan.batch} at once x {chosen.plan.workers} ({note})")


def compared(work: str, lanes: list[Lane], rates: list[list[float]], last: Bar | None = None) -> list[Row]:
    """Against pgqueuer, if it is there. The bar is for the last: that is ours on PostgreSQL."""
    has_base = lanes[0].name.startswith("pgqueuer")
    rows = []
    for index, (one, mine) in enumerate(zip(lanes, rates, strict=True)):
        to_meet = last if index == len(lanes) - 1 else None
        if to_meet and not has_base:
            rows.append(Row(work, one.name, "nothing to compare it to", bar=to_meet))
        else:
            rows.append(
                figure_row(work, one.name, mine, "{:,.0f}/s", to_meet, rates[0] if has_base and index else None)
            )
    return rows


def queue_http(effort: Effort) -> list[Row]:
    """Through one server on one core. The client shares the other with the database, so this is a lower limit."""
    work, name = "claim, heartbeat, complete over HTTP", "toolyard, PostgreSQL"
    plan = Plan(round(1000 * effort.seconds), workers=2)
    with database() as postgres:
        address = postgres.create()
        try:
            with serving(contenders.toolyard(name=name, store=address), SERVER_CORE) as server:
                client = str(HERE / "queues" / "over_http.py")
                command = [sys.executable, client, address, f"http://127.0.0.1:{server.port}"]
                with lane(f"{name}, 100 at once", plan, command, LOAD_CORE) as over_http:
                    over_http.turn()
                    (turns,) = in_turn([over_http], effort.loose_rounds)
        except ServerError as error:
            complain(error)
            return [Row(work, name, "no figure")]
    return [figure_row(work, over_http.name, [turn.worked for turn in turns], "{:,.0f}/s")]
