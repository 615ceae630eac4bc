package fencepost.host;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/**
 * The polls of a task, on the task's thread, some of them before the worker has asked for them: the worker may write, or wait
 * for brokers, meanwhile. Each is work of its own for the thread, so that a commit gets its turn between two. While the
 * first records are sent, one other poll begins at most: if a later one ends each JVM, the worker still has what came before.
 *
 * <pre>
 *     idle -- next, sent, or a poll with records that has ended, with room for more --> polling -- poll returns, or raises --> idle
 *     idle, polling -- stop --> stopped
 * </pre>
 */
final class PollsAhead {
    private static final int MOST_POLLS = 4;
    private static final long MOST_BYTES = 8 << 20;

    private final Callable<List<RecordColumns>> poll;
    private final Executor thread;
    private final int most;
    private final Deque<RecordColumns> ready = new ArrayDeque<>();
    private Throwable failure;
    private boolean polling;
    /** Whether the worker waits for records, or does not have the last ones yet. */
    private boolean sending;
    private int sent;
    private boolean stopped;

    /** Unless `isAllowed`, a poll begins only when the worker asks for one. */
    PollsAhead(Callable<List<RecordColumns>> poll, Executor thread, boolean isAllowed) {
        this.poll = poll;
        this.thread = thread;
        most = isAllowed ? MOST_POLLS : 0;
    }

    /** The next records. Null if there are none within that time, or the poll returned none. Raises what a poll raised. */
    synchronized RecordColumns next(long ms) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        if (ready.isEmpty()) begin();
        while (ready.isEmpty() && polling) {
            long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            if (left <= 0) {
                sending = false;
                return null;
            }
            sending = true;
            wait(left);
        }
        RecordColumns records = ready.poll();
        sending = records != null;
        if (sending) beginAhead();
        else raise();
        return records;
    }

    /** The worker has the last records: poll ahead. */
    synchronized void sent() {
        sending = false;
        sent++;
        beginAhead();
    }

    /** Begin no other poll. On any thread. */
    synchronized void stop() {
        stopped = true;
    }

    private void beginAhead() {
        if (ready.size() < most && ready.stream().mapToLong(RecordColumns::size).sum() < MOST_BYTES) begin();
    }

    private void begin() {
        if (polling || stopped || failure != null) return;
        polling = true;
        thread.execute(this::run);
    }

    private void run() {
        List<RecordColumns> polled = List.of();
        Throwable raised = null;
        try {
            polled = poll.call();
        } catch (Throwable error) {
            raised = error;
        }
        ended(polled, raised);
    }

    private synchronized void ended(List<RecordColumns> polled, Throwable raised) {
        ready.addAll(polled);
        failure = raised;
        polling = false;
        // A task that has nothing now is asked again when the worker asks.
        if (!polled.isEmpty() && (!sending || sent >= MOST_POLLS)) beginAhead();
        notifyAll();
    }

    private void raise() throws Exception {
        Throwable raised = failure;
        failure = null;
        if (raised instanceof Exception exception) throw exception;
        if (raised instanceof Error error) throw error;
    }
}
