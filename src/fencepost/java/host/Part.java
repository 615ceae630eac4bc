package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Deque;
import java.util.Map;
import java.util.concurrent.Callable;

/**
 * An object of a plugin in the pipeline of records. During a call, the thread has the class loader of the plugin's
 * jars.
 */
final class Part<T extends AutoCloseable> {
    final T object;
    private final ClassLoader loader;

    private Part(T object, ClassLoader loader) {
        this.object = object;
        this.loader = loader;
    }

    /**
     * Makes an object of the class that a request names, and puts it at the front of `made`, the parts that the
     * pipeline closes.
     */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static <T extends AutoCloseable> Part<T> of(JsonNode request, Class kind, Deque<Part<?>> made) throws Exception {
        PluginLoader loader = PluginLoader.of(request);
        Part<T> empty = new Part<>(null, loader);
        Part<T> part = new Part<>((T) empty.call(() -> loader.create(request.get("class").asText(), kind)), loader);
        made.push(part);
        return part;
    }

    static Map<String, String> properties(JsonNode request) {
        return Wire.properties(request.get("properties"));
    }

    <R> R call(Callable<R> work) throws Exception {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        if (before == loader) return work.call();
        thread.setContextClassLoader(loader);
        try {
            return work.call();
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    void close() throws Exception {
        run(object::close);
    }

    /** A piece of work without a result. */
    interface Work {
        void run() throws Exception;
    }

    void run(Work work) throws Exception {
        call(() -> {
            work.run();
            return null;
        });
    }
}
