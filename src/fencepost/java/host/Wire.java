package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.connect.errors.RetriableException;

/**
 * Messages on a connection. A request is its length (4 bytes) and JSON. An answer is the lengths of both parts (4 and 8
 * bytes), then JSON, then Arrow buffers. Numbers are little-endian.
 */
final class Wire {
    static final ObjectMapper JSON = new ObjectMapper();
    /** The largest number of characters of an error, and of its trace. */
    private static final int LONGEST = 100_000;

    private Wire() { }

    static JsonNode read(SocketChannel channel) throws IOException {
        int size = filled(channel, ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN)).getInt(0);
        return JSON.readTree(filled(channel, ByteBuffer.allocate(size)).array());
    }

    static void write(SocketChannel channel, ObjectNode answer, RecordColumns records) throws IOException {
        List<ByteBuffer> parts = new ArrayList<>();
        if (records != null) records.describe(answer, parts);
        long size = parts.stream().mapToLong(ByteBuffer::remaining).sum();
        byte[] text = JSON.writeValueAsBytes(answer);
        parts.add(0, ByteBuffer.wrap(text));
        parts.add(0, ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN).putInt(text.length).putLong(size).flip());
        ByteBuffer[] all = parts.toArray(ByteBuffer[]::new);
        long left = 12 + text.length + size;
        while (left > 0) left -= channel.write(all);
    }

    private static ByteBuffer filled(SocketChannel channel, ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining()) if (channel.read(buffer) < 0) throw new EOFException();
        return buffer;
    }

    /** Puts a failure into an answer, shortened to what a status can hold. */
    static void describe(Throwable error, ObjectNode answer) {
        answer.put("error", shortened(said(error, error::toString))).put("trace", shortened(said(error, () -> trace(error))));
        boolean isOfClients = error instanceof org.apache.kafka.common.errors.RetriableException;
        answer.put("retriable", isOfClients || error instanceof RetriableException);
        answer.put("unsupported", error instanceof UnsupportedOperationException);
    }

    private static String trace(Throwable error) {
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace));
        return trace.toString();
    }

    /** Returns `words`, a text of an error. The error's own code makes it; if that throws, the result says so. */
    static String said(Throwable error, Supplier<String> words) {
        try {
            return words.get();
        } catch (Throwable failed) {
            return error.getClass().getName() + ", which threw " + failed.getClass().getName() + " when its text was requested";
        }
    }

    private static String shortened(String text) {
        if (text == null) return "null";
        int left = text.length() - LONGEST;
        return left <= 0 ? text : text.substring(0, LONGEST) + "... (and " + left + " more characters)";
    }

    static Map<String, String> properties(JsonNode node) {
        Map<String, String> found = new LinkedHashMap<>();
        node.properties().forEach(field -> found.put(field.getKey(), field.getValue().asText(null)));
        return found;
    }
}
