package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.SocketChannel;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.connect.errors.ConnectException;

/** Calls from a plugin's code to the worker. The plugin may use any thread; the calls are made one after the other. */
final class Events {
    private final CountDownLatch closed = new CountDownLatch(1);
    private SocketChannel channel;

    /** Answers the worker, and then uses the connection for the plugin's calls, until the session is closed. */
    void serve(SocketChannel connection, ObjectNode answer) throws IOException {
        // After the answer, the worker starts the plugin. The plugin's first call waits here until the connection is
        // set.
        synchronized (this) {
            Wire.write(connection, answer, null);
            channel = connection;
        }
        try {
            closed.await();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    void close() {
        closed.countDown();
    }

    /** Returns the worker's answer. Throws ConnectException if the worker refuses, or has ended. */
    synchronized JsonNode ask(ObjectNode question) {
        if (channel == null || closed.getCount() == 0)
            throw new ConnectException("The context cannot be used: the worker has closed this connector or task");
        JsonNode answer;
        try {
            // Not on the plugin's thread, because an interrupt of that thread would close the connection.
            answer = CompletableFuture.supplyAsync(() -> answered(question), Events::onOwnThread).join();
        } catch (CompletionException error) {
            throw new ConnectException("The worker does not answer", error.getCause());
        }
        if (answer.has("error")) throw new ConnectException(answer.get("error").asText());
        return answer;
    }

    private JsonNode answered(ObjectNode question) {
        try {
            Wire.write(channel, question, null);
            return Wire.read(channel);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void onOwnThread(Runnable work) {
        Thread thread = new Thread(work, "event");
        thread.setDaemon(true);
        thread.start();
    }
}
