package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.errors.RetriableException;

/**
 * Retries work that fails in a stage of the pipeline, according to the connector's `errors.retry.*` (KIP-298). Java's
 * Errors, as opposed to its exceptions, are never caught. Only for the task's thread, except for `stop`.
 */
final class StageErrors {
    private static final long FIRST_PAUSE_MS = 300;
    private static final long FOR_EVER = -1;

    /** Whether refused records are skipped, written as dead letters, and shown in the log. */
    final boolean tolerates;
    final boolean letters;
    final boolean contents;
    private final long timeoutMs;
    private final long longestPauseMs;
    private final CountDownLatch stopped = new CountDownLatch(1);
    private int retries;

    StageErrors(JsonNode settings) {
        tolerates = settings.get("tolerates").asBoolean();
        letters = settings.get("letters").asBoolean();
        contents = settings.get("contents").asBoolean();
        timeoutMs = settings.get("retry.timeout.ms").asLong();
        longestPauseMs = settings.get("retry.delay.max.ms").asLong();
    }

    /** A stage refused a record. */
    static final class Refused extends Exception {
        final String stage;
        final Class<?> plugin;
        final Exception reason;

        private Refused(String stage, Class<?> plugin, Exception reason) {
            // The message is null. Without that, Java would ask the reason for its text, which runs the reason's own
            // code.
            super(null, reason);
            this.stage = stage;
            this.plugin = plugin;
            this.reason = reason;
        }
    }

    /** The task was stopped while a stage was retried. The task's records will be read again later. */
    static final class Stopped extends RuntimeException { }

    <T> T passed(String stage, Class<?> plugin, Callable<T> work) throws Refused {
        long deadline = 0, pause = Math.min(FIRST_PAUSE_MS, longestPauseMs);
        for (int failed = 0; ; failed++) {
            try {
                return work.call();
            } catch (RetriableException error) {
                long now = System.nanoTime();
                if (failed == 0) deadline = now + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
                long left = timeoutMs == FOR_EVER ? pause : TimeUnit.NANOSECONDS.toMillis(deadline - now);
                if (timeoutMs == 0 || left <= 0) throw new Refused(stage, plugin, error);
                retries++;
                await(Math.min(pause, left));
                pause = Math.min(2 * pause, longestPauseMs);
            } catch (Exception error) {
                throw new Refused(stage, plugin, error);
            }
        }
    }

    /** Waits, even if the thread is interrupted: a plugin may interrupt it although the task was not stopped. */
    private void await(long ms) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try {
                    if (stopped.await(end - System.nanoTime(), TimeUnit.NANOSECONDS)) throw new Stopped();
                    return;
                } catch (InterruptedException again) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    /** Returns the number of retries since the last call. */
    int takeRetries() {
        int taken = retries;
        retries = 0;
        return taken;
    }

    /** Ends all pauses, current and future ones. May be called on any thread. */
    void stop() {
        stopped.countDown();
    }
}
