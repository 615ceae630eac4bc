package fencepost.host;

import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.TransactionContext;

/**
 * The commits and aborts that a task requests, after a record or after the batch. Equal records count as the same; for
 * the batch, the record is null.
 */
final class Transactions implements TransactionContext, Boundaries {
    private static final String NO_RECORD = "A transaction cannot end after a record that is null: call the method without a record";
    private final Map<SourceRecord, String> requests = new HashMap<>();

    @Override
    public void commitTransaction() {
        request(null, COMMIT);
    }

    @Override
    public void commitTransaction(SourceRecord record) {
        request(Objects.requireNonNull(record, NO_RECORD), COMMIT);
    }

    @Override
    public void abortTransaction() {
        request(null, ABORT);
    }

    @Override
    public void abortTransaction(SourceRecord record) {
        request(Objects.requireNonNull(record, NO_RECORD), ABORT);
    }

    private synchronized void request(SourceRecord record, String what) {
        String former = requests.put(record, what);
        if (former != null && !former.equals(what))
            throw new IllegalStateException("Both a commit and an abort were requested for the same " + (record == null ? "batch" : "record"));
    }

    /** Returns the request for a record. It applies only once. */
    @Override
    public synchronized String after(SourceRecord record) {
        return requests.isEmpty() ? null : requests.remove(record);
    }

    /** Returns the request for the batch. It applies only once. */
    @Override
    public String atEnd() {
        return after(null);
    }
}
