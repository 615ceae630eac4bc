package fencepost.host;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.stream.IntStream;

/** The buffers of an Arrow array of bytes: validity, ends and data. */
final class BytesColumn {
    private final Column data = new Column();
    private final Column ends = new Column();
    private final BitSet valid = new BitSet();
    private int count;

    BytesColumn() {
        ends.room(4).putInt(0);
    }

    int count() {
        return count;
    }

    /** Whether at least one item is not null. */
    boolean hasAny() {
        return !valid.isEmpty();
    }

    void add(byte[] item) {
        if (item != null) {
            data.room(item.length).put(item);
            valid.set(count);
        }
        count++;
        ends.room(4).putInt(data.size());
    }

    /** The sizes of the items, -1 for null: the convention of Kafka for a record's key and value. */
    int[] sizes() {
        return IntStream.range(0, count).map(row -> valid.get(row) ? ends.int32(row + 1) - ends.int32(row) : -1).toArray();
    }

    void append(String name, ArrayNode names, List<ByteBuffer> parts) {
        if (valid.cardinality() < count) {
            byte[] bitmap = Arrays.copyOf(valid.toByteArray(), (count + 7) / 8);  // BitSet and Arrow: lowest bit first.
            RecordColumns.append(name + ".valid", ByteBuffer.wrap(bitmap), names, parts);
        }
        RecordColumns.append(name + ".ends", ends.filled(), names, parts);
        RecordColumns.append(name, data.filled(), names, parts);
    }
}
