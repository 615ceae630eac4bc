package fencepost.host;

import java.util.List;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Keeps the transactions of a database whole: Debezium's records of their begin and end (provide.transaction.metadata) say
 * where they are. A Kafka transaction ends with the last end in a poll, so it has whole transactions of the source. What is
 * outside of them, such as a snapshot and heartbeats, is committed with its poll.
 *
 * <p>The records are looked at as they were polled: transforms may drop or rename them.
 */
final class SourceTransactions implements Boundaries {
    private static final String METADATA = "io.debezium.connector.common.TransactionMetadataValue";

    private SourceRecord last;
    private boolean isOpen;
    private boolean isCommitted;

    @Override
    public void polled(List<SourceRecord> records) {
        last = null;
        for (SourceRecord record : records) if ("END".equals(status(record))) last = record;
    }

    @Override
    public String after(SourceRecord record) {
        String status = status(record);
        if (status != null) isOpen = status.equals("BEGIN");
        isCommitted = record == last;
        return isCommitted ? COMMIT : null;
    }

    @Override
    public String atEnd() {
        return isOpen || isCommitted ? null : COMMIT;
    }

    private static String status(SourceRecord record) {
        if (record == null || record.valueSchema() == null || !METADATA.equals(record.valueSchema().name())) return null;
        return record.value() instanceof Struct value ? value.getString("status") : null;
    }
}
