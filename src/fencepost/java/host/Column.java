package fencepost.host;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.kafka.connect.errors.DataException;

/** Bytes that grow. */
class Column {
    private static final int FIRST = 8192;
    private static final long MOST = Integer.MAX_VALUE - 64;

    private ByteBuffer data = ByteBuffer.allocate(FIRST).order(ByteOrder.LITTLE_ENDIAN);

    /** The buffer, with room for so many bytes. Raises DataException beyond what 32-bit offsets of Arrow can say. */
    ByteBuffer room(int size) {
        if (data.remaining() < size) {
            long wanted = (long) data.position() + size;
            if (wanted > MOST) throw new DataException("One poll of the task returned more than 2 GiB: let it return less at once");
            int capacity = (int) Math.min(MOST, Math.max(data.capacity() * 2L, wanted));
            data = ByteBuffer.allocate(capacity).order(ByteOrder.LITTLE_ENDIAN).put(data.flip());
        }
        return data;
    }

    int size() {
        return data.position();
    }

    /** The number that was put there, of numbers that have 4 bytes. */
    int int32(int row) {
        return data.getInt(4 * row);
    }

    /** What was put, for reading. */
    ByteBuffer filled() {
        return data.flip();
    }
}
