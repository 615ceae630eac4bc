package fencepost.host;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.kafka.connect.errors.DataException;

/** A buffer of bytes that grows. */
class Column {
    private static final int FIRST = 8192;
    private static final long MOST = Integer.MAX_VALUE - 64;

    private ByteBuffer data = ByteBuffer.allocate(FIRST).order(ByteOrder.LITTLE_ENDIAN);

    /**
     * Returns the buffer, with room for `size` more bytes. Throws DataException beyond the limit of Arrow's 32-bit
     * offsets.
     */
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

    /** Returns the number at an index of a buffer of 4-byte numbers. */
    int int32(int row) {
        return data.getInt(4 * row);
    }

    /** Returns the written bytes, ready for reading. */
    ByteBuffer filled() {
        return data.flip();
    }
}
