package fencepost.host;

import java.util.List;
import org.apache.kafka.connect.source.SourceRecord;

/** Decides where the Kafka transactions of a task end. Only for the task's thread. */
interface Boundaries {
    String COMMIT = "commit", ABORT = "abort";

    /** Never ends a transaction: the worker decides after each poll. */
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

    /** Called with the records of a poll, before `after` is called for each of them. */
    default void polled(List<SourceRecord> records) { }

    /** What to do after this record, as it was polled: COMMIT, ABORT, or null for nothing. */
    String after(SourceRecord record);

    /** What to do after all records of the poll: COMMIT, ABORT, or null for nothing. */
    String atEnd();
}
