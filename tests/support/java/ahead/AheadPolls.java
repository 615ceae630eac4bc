package fencepost.host;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

/** Polls of a task whose thread is this one: prints what each test expects, one a line. */
public final class AheadPolls {
    private final Deque<Runnable> thread = new ArrayDeque<>();
    private final PollsAhead polls;
    private int polled;

    private AheadPolls(boolean isAllowed, Callable<List<RecordColumns>> poll) {
        polls = new PollsAhead(() -> {
            polled++;
            return poll.call();
        }, thread::add, isAllowed);
    }

    private String next() {
        String got;
        try {
            got = polls.next(0) == null ? "nothing" : "records";
            polls.sent();
        } catch (Exception error) {
            got = error.getMessage();
        }
        while (!thread.isEmpty()) thread.poll().run();
        return got + " after " + polled;
    }

    /** Takes the records of three polls, and sends none of them. */
    private int unsent() throws Exception {
        for (int i = 0; i < 3; i++) polls.next(0);
        while (!thread.isEmpty()) thread.poll().run();
        return polled;
    }

    private String next(int times) {
        String all = next();
        for (int i = 1; i < times; i++) all += ", " + next();
        return all;
    }

    private static List<RecordColumns> records(int bytes) {
        RecordColumns columns = new RecordColumns();
        columns.add("topic", null, null, null, new byte[bytes]);
        return List.of(columns);
    }

    public static void main(String[] args) throws Exception {
        System.out.println(new AheadPolls(true, () -> records(1)).next(3));
        System.out.println(new AheadPolls(true, () -> records(3 << 20)).next(3));
        System.out.println(new AheadPolls(false, () -> records(1)).next(4));
        System.out.println(new AheadPolls(true, List::of).next(3));
        AheadPolls failing = new AheadPolls(true, () -> records(1));
        AheadPolls failed = new AheadPolls(true, () -> {
            if (failing.polled++ == 1) throw new IllegalStateException("refused");
            return records(1);
        });
        System.out.println(failed.next(4));
        AheadPolls stopped = new AheadPolls(true, () -> records(1));
        stopped.next();
        stopped.polls.stop();
        System.out.println(stopped.next(6));
        AheadPolls first = new AheadPolls(true, () -> records(1)), later = new AheadPolls(true, () -> records(1));
        first.next();
        later.next(5);
        System.out.println(first.unsent() + " " + later.unsent());
        ExecutorService thread = Executors.newSingleThreadExecutor();
        AtomicInteger count = new AtomicInteger();
        PollsAhead awaited = new PollsAhead(() -> records(count.incrementAndGet()), thread, true);
        awaited.next(60_000);
        thread.submit(() -> System.out.println(count)).get();
        thread.shutdown();
    }
}
