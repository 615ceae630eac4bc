package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.concurrent.Callable;

/** An object of a plugin that records pass through. While it is called, the thread has the class loader of its jars. */
final class Part<T> {
    final T object;
    private final ClassLoader loader;

    private Part(T object, ClassLoader loader) {
        this.object = object;
        this.loader = loader;
    }

    /** A new object of the class that a request names. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    static <T> Part<T> of(JsonNode request, Class kind) throws Exception {
        PluginLoader loader = PluginLoader.of(request);
        Part<T> empty = new Part<>(null, loader);
        return new Part<>((T) empty.call(() -> loader.create(request.get("class").asText(), kind)), loader);
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

    /** Work without a result. */
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
