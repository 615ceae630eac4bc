package fencepost.host;

import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.TransactionContext;

/** The commits and aborts that a task asks for: after a record, or after the batch, for which the record is null. */
final class Transactions implements TransactionContext {
    static final String COMMIT = "commit", ABORT = "abort";
    private final Map<SourceRecord, String> requests = new IdentityHashMap<>();

    @Override
    public void commitTransaction() {
        request(null, COMMIT);
    }

    @Override
    public void commitTransaction(SourceRecord record) {
        request(record, COMMIT);
    }

    @Override
    public void abortTransaction() {
        request(null, ABORT);
    }

    @Override
    public void abortTransaction(SourceRecord record) {
        request(record, ABORT);
    }

    private synchronized void request(SourceRecord record, String what) {
        String former = requests.put(record, what);
        if (former != null && !former.equals(what))
            throw new IllegalStateException("Both a commit and an abort were requested for the same " + (record == null ? "batch" : "record"));
    }

    /** The request for a record, or the batch, which applies once; null for none. */
    synchronized String taken(SourceRecord record) {
        return requests.remove(record);
    }
}
