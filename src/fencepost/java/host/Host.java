package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Runs Java connectors and their tasks for a worker in Python, which calls them over a Unix socket.
 *
 * <p>Each connection has its own thread. Its first request says what the connection is for: `hold` (this process ends
 * when the connection does), `ping` (the worker checks whether this process still answers), `attach` to a session (a
 * connector or a task), `events` of a session (calls in the other direction), or a question about a connector class.
 * Several connections may attach to one session, so that `stop` need not wait for another call.
 */
public final class Host {
    private static final Map<String, Session> SESSIONS = new ConcurrentHashMap<>();

    /**
     * Holds an answer of a few thousand records, so that the next answer is prepared before the worker has read this
     * one.
     */
    private static final int SEND_BUFFER_BYTES = 1 << 20;

    private Host() { }

    public static void main(String[] args) throws IOException {
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(args[0]));
        while (true) {
            SocketChannel channel = server.accept();
            channel.setOption(StandardSocketOptions.SO_SNDBUF, SEND_BUFFER_BYTES);
            Thread thread = new Thread(() -> serve(channel), "connection");
            thread.setDaemon(true);
            thread.start();
        }
    }

    private static void serve(SocketChannel channel) {
        boolean holds = false;
        try (channel) {
            Session session = null;
            while (true) {
                JsonNode request = Wire.read(channel);
                String operation = request.get("op").asText();
                ObjectNode answer = Wire.JSON.createObjectNode();
                RecordColumns records = null;
                Session events = null;
                try {
                    switch (operation) {
                        case "hold" -> holds = true;
                        case "ping" -> { }
                        case "open" -> SESSIONS.put(request.get("session").asText(), opened(request));
                        case "levels" -> LogLevels.set(request.get("levels"));
                        case "attach" -> session = known(request);
                        case "events" -> events = known(request);
                        case "close" -> {
                            SESSIONS.values().remove(session);
                            session.close();
                        }
                        default -> {
                            if (session == null) Questions.answer(operation, request, answer);
                            else records = session.call(operation, request, answer);
                        }
                    }
                } catch (Throwable error) {  // A plugin with a missing jar throws a LinkageError.
                    Wire.describe(error, answer);
                } finally {
                    // A plugin may have left the thread's interrupt flag set. Then a channel would be closed when the
                    // thread uses it.
                    Thread.interrupted();
                }
                if (events != null) {
                    events.events().serve(channel, answer);
                    return;
                }
                Wire.write(channel, answer, records);
            }
        } catch (IOException closed) {
            // The worker has closed the connection.
        } finally {
            if (holds) Runtime.getRuntime().halt(0);
        }
    }

    private static Session opened(JsonNode request) throws Exception {
        return request.get("kind").asText().equals("task") ? new TaskSession(request) : new ConnectorSession(request);
    }

    private static Session known(JsonNode request) {
        Session session = SESSIONS.get(request.get("session").asText());
        if (session == null) throw new IllegalStateException("There is no such session: " + request);
        return session;
    }
}
