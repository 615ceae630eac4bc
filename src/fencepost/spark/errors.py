"""The errors of a sink: batches that it refuses, and batches that fail.

    CheckpointMismatchError   the batch does not follow the last batch that the sink committed
    TopicRecreatedError       a topic was deleted and created again, so the committed records are gone
    SinkFencedError           another query, or a newer instance of this one, took over the sink
    BatchExpiredError         the transaction of a batch was open for longer than Kafka allows
    CommitUnknownError        nobody knows whether a single write was committed
    CommitLostError           a commit without an answer did not take place; the batch may be written again

After any of these errors except CommitUnknownError, `read_committed` consumers see nothing of the batch.
"""

from __future__ import annotations

from fencepost.api.errors import FencepostError
from fencepost.kafka.errors import TransactionAbortableError


class CheckpointMismatchError(FencepostError):
    """A batch does not follow the sink's last committed batch, so it could be written twice or be lost."""


class TopicRecreatedError(FencepostError):
    """The topic of a sink was deleted and created again since its last committed batch."""


class SinkFencedError(FencepostError):
    """Another query, or a newer instance of this one, took over the sink."""


class BatchExpiredError(FencepostError):
    """The brokers aborted the transaction of a batch because it was open for too long."""


class CommitUnknownError(FencepostError):
    """A commit was not answered, and no record shows whether it took place, because the write has no run."""


class CommitLostError(TransactionAbortableError):
    """A commit that was not answered did not take place."""
