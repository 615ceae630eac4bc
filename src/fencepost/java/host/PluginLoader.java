package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

/**
 * Loads the classes of one plugin's jars. The plugin's own classes come first. But the classes of Java, Kafka's
 * clients, Connect's API and slf4j come from the host, so that both sides use the same classes. Kafka Connect does the
 * same.
 */
final class PluginLoader extends URLClassLoader {
    private static final Pattern SHARED = Pattern.compile(
        "(java|javax|sun|jdk|com\\.sun|org\\.xml\\.sax|org\\.w3c\\.dom|org\\.slf4j|org\\.apache\\.log4j|org\\.apache\\.kafka)\\..*");
    /**
     * Packages that are loaded from the plugin's jars: Connect's own plugins, and javax packages that Java lacks.
     */
    private static final Pattern OF_PLUGINS = Pattern.compile(
        "javax\\.(ws\\.rs|inject|activation|annotation|xml\\.bind|persistence|transaction|jms|mail|servlet)\\..*"
        + "|org\\.apache\\.kafka\\.connect\\.((json|file|mirror|converters)\\..*"
        + "|transforms\\.(?!Transformation$|predicates\\.Predicate$).*"
        + "|storage\\.(StringConverter|SimpleHeaderConverter))");
    private static final Map<List<String>, PluginLoader> LOADERS = new ConcurrentHashMap<>();

    static {
        registerAsParallelCapable();
    }

    private PluginLoader(URL[] jars) {
        super(jars, PluginLoader.class.getClassLoader());
    }

    /** Returns the loader of the jars that a request names. The same jars always have the same loader. */
    static PluginLoader of(JsonNode request) {
        List<String> jars = new ArrayList<>();
        request.get("jars").forEach(jar -> jars.add(jar.asText()));
        return LOADERS.computeIfAbsent(jars, key -> new PluginLoader(key.stream().map(PluginLoader::url).toArray(URL[]::new)));
    }

    private static URL url(String jar) {
        try {
            return Path.of(jar).toUri().toURL();
        } catch (MalformedURLException error) {
            throw new IllegalArgumentException(error);
        }
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (!SHARED.matcher(name).matches() || OF_PLUGINS.matcher(name).matches()) {
            synchronized (getClassLoadingLock(name)) {
                Class<?> found = findLoadedClass(name);
                if (found == null) {
                    try {
                        found = findClass(name);
                    } catch (ClassNotFoundException absent) {
                        return super.loadClass(name, resolve);
                    }
                }
                if (resolve) resolveClass(found);
                return found;
            }
        }
        return super.loadClass(name, resolve);
    }

    @Override
    public URL getResource(String name) {
        URL own = findResource(name);
        return own == null ? super.getResource(name) : own;
    }

    /** The plugin's own resources come first here, too: code that looks for a service may take the first one. */
    @Override
    public Enumeration<URL> getResources(String name) throws IOException {
        List<URL> all = Collections.list(findResources(name));
        all.addAll(Collections.list(getParent().getResources(name)));
        return Collections.enumeration(all);
    }

    /** Makes an object of a class. Throws ConfigException if the class is not of the expected kind. */
    <T> T create(String name, Class<T> kind) throws ReflectiveOperationException {
        Class<?> found = Class.forName(name, true, this);
        if (!kind.isAssignableFrom(found)) throw new ClassCastException(name + " is not a " + kind.getName());
        return kind.cast(found.getDeclaredConstructor().newInstance());
    }
}
