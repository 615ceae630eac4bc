package fencepost.host;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Keeps the transactions of a database whole: Debezium's records of their begin and end (provide.transaction.metadata) say
 * where they are. A Kafka transaction ends after a record END that leaves no database of the task within a transaction. If a
 * poll has several such records, it ends after the last one. So it has whole transactions of the source. What is outside of
 * them, such as a snapshot and heartbeats, is committed with its poll.
 *
 * <p>The records are looked at as they were polled: transforms may drop or rename them.
 */
final class SourceTransactions implements Boundaries {
    private static final String METADATA = "io.debezium.connector.common.TransactionMetadataValue";

    /** The source partitions, each a database, that are within a transaction. */
    private final Set<Map<String, ?>> open = new HashSet<>();
    private SourceRecord last;
    private boolean isCommitted;

    @Override
    public void polled(List<SourceRecord> records) {
        last = null;
        for (SourceRecord record : records) {
            String status = status(record);
            if ("BEGIN".equals(status)) open.add(record.sourcePartition());
            if ("END".equals(status)) {
                open.remove(record.sourcePartition());
                if (open.isEmpty()) last = record;
            }
        }
    }

    @Override
    public String after(SourceRecord record) {
        isCommitted = record == last;
        return isCommitted ? COMMIT : null;
    }

    @Override
    public String atEnd() {
        return isCommitted || !open.isEmpty() ? null : COMMIT;
    }

    private static String status(SourceRecord record) {
        if (record == null || record.valueSchema() == null || !METADATA.equals(record.valueSchema().name())) return null;
        return record.value() instanceof Struct value ? value.getString("status") : null;
    }
}
