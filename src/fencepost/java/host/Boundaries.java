package fencepost.host;

import java.util.List;
import org.apache.kafka.connect.source.SourceRecord;

/** Where the Kafka transactions of a task end. For the task's thread. */
interface Boundaries {
    String COMMIT = "commit", ABORT = "abort";

    /** Nothing of its own: the worker decides, after each poll. */
    Boundaries OF_WORKER = new Boundaries() {
        @Override
        public String after(SourceRecord record) {
            return null;
        }

        @Override
        public String atEnd() {
            return null;
        }
    };

    /** The records of a poll, before they are looked at one by one. */
    default void polled(List<SourceRecord> records) { }

    /** What is to happen after a record as it was polled, null for nothing. */
    String after(SourceRecord record);

    /** What is to happen after the poll, null for nothing. */
    String atEnd();
}
