package fencepost.host;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Keeps the transactions of a database whole. Debezium's BEGIN and END records (provide.transaction.metadata) show
 * where the transactions begin and end. A Kafka transaction ends after an END record if no database of the task is
 * within a transaction then. If a poll has several such END records, the Kafka transaction ends after the last one. So
 * a Kafka transaction contains only whole transactions of the source. Records outside of them, such as a snapshot and
 * heartbeats, are committed with their poll.
 *
 * <p>The records are examined as they were polled, because transforms may drop or rename them.
 */
final class SourceTransactions implements Boundaries {
    private static final String METADATA = "io.debezium.connector.common.TransactionMetadataValue";

    /** The source partitions that are within a transaction. Each source partition is a database. */
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
