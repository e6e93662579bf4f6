"""Times that depend on each other, because one part of mirror waits for what another part does regularly.

A task reports, and several readers conclude something from its silence. So each time below has a lower bound that
follows from the ones above it. tests/unit/test_timing.py checks the bounds.
"""

from __future__ import annotations

REPORT_INTERVAL = 1.0  # seconds between two looks of a task at what it has to report
REPORT_ALL_INTERVAL = 10.0  # seconds after which a task reports every partition, whether changed or not

# Reports of each partition that are read from the end of the status topic, so that every partition is among them. A
# task writes at most REPORT_ALL_INTERVAL / REPORT_INTERVAL reports of a partition before it has reported all of them,
# and two tasks may overlap.
RECENT_REPORTS = 25

# Seconds without a report after which a partition counts as having no task. A task may miss two rounds of reports: its
# process may be suspended, and the target may be slow.
SILENCE = 30.0

# Seconds without any report of a flow after which a command concludes that no service runs it. Two rounds of reports
# may be missed here, too. Shorter than SILENCE: somebody waits for the command.
NO_SERVICE = 25.0

# Seconds after its last sign of life during which a flow counts as alive for the flows that conflict with it. Longer
# than SILENCE: nothing is reported while a service starts lost tasks again, and its flow must not count as gone then.
ALIVE = 60.0

SIGN_INTERVAL = 2.0  # seconds between two signs of life that a service gives of each of its flows

# Seconds within which a living flow is seen to be alive, whatever the clocks say: it gives at least two signs of life.
LIFE_SHOWS = 2.5 * SIGN_INTERVAL

# Seconds for which a flow leader's source has to be silent before it gives no more signs of life. At least as long
# as the next look may take to come and to end (service/cluster_watch.py): one look without an answer proves nothing.
SOURCE_PATIENCE = 15.0

# Seconds without a sign of life after which a standby takes over. Taking over from a living flow leader stops the
# copying for the time of a start. So it is at least as long as a flow leader may be silent after an outage of the
# source: the look that has begun before the end of the outage fails late, the next one has to come
# (service/cluster_watch.py), a sign may be lost, and the one after it may be read late. By the next look there is a
# connection again: one that lost packets without a word is replaced after as long as one look may take, because TCP
# would repeat them only after about as long as the outage has lasted.
TAKE_OVER_LEAST = 20.0
TAKE_OVER_AFTER = 30.0  # unless --standby-after says otherwise

LEADER_STEP = 10.0  # seconds for each step of a flow leader's transaction

# Seconds after which the target aborts a flow leader's transaction, if transaction_timeout is not shorter. Until then a
# flow leader that died in it hides everything that follows on the control topic: the claim of a standby, and orders.
# Longer than LEADER_STEP, because a living flow leader gives up first.
LEADER_TRANSACTION = 15.0
ABORT_INTERVAL = 10.0  # seconds between two looks of a broker for transactions to abort, by default
