package fencepost.host;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * The parts of records that `commitRecord` needs after their commit. The records' bytes are not kept, so that the heap
 * has room for larger transactions.
 */
final class Uncommitted {
    /** Polled records, which of them were written, and the sizes of the keys and values of the written ones. */
    record Batch(long number, Collection<SourceRecord> polled, BitSet written, int[] keySizes, int[] valueSizes) { }

    private final boolean latestOnly;
    private final Deque<Batch> batches = new ArrayDeque<>();

    /** With `latestOnly`, there is only one batch, which has the last record of each source partition and no sizes. */
    Uncommitted(boolean latestOnly) {
        this.latestOnly = latestOnly;
    }

    synchronized void add(RecordColumns records) {
        batches.add(latestOnly ? merged(batches.poll(), records) : records.waiting());
    }

    private static Batch merged(Batch before, RecordColumns records) {
        // The order of the records is kept, because a task may use the last record of all.
        Map<Map<String, ?>, SourceRecord> latest = new LinkedHashMap<>(16, 0.75f, true);
        if (before != null) before.polled.forEach(record -> latest.put(record.sourcePartition(), record));
        latest.putAll(records.latest());
        return new Batch(records.number, latest.values(), new BitSet(), new int[0], new int[0]);
    }

    /** Removes and returns the batches up to a number. */
    synchronized List<Batch> take(long number) {
        List<Batch> taken = new ArrayList<>();
        while (!batches.isEmpty() && batches.peek().number <= number) taken.add(batches.poll());
        return taken;
    }
}
