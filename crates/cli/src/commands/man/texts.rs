//! The parts of the manual pages that the argument parsers don't know: environment, files and examples.

/// Variables that lokt reads, and those that it sets for a guarded command.
pub(super) const ENVIRONMENT: [(&str, &str); 9] = [
    (
        "LOKT_ROOT",
        "The root directory. Otherwise it is `lokt` in the common directory of the git repository, else the nearest `.lokt` upwards, else \
         `.lokt` here. `lokt root` says which.",
    ),
    (
        "LOKT_OWNER",
        "Who takes locks, by default whoever is logged in. Equal owners share what `lokt lock` takes: give each agent its own.",
    ),
    ("LOKT_AGENT_ID", "Which agent of that owner; shown, and not compared."),
    (
        "LOKT_EXIT_CONFLICT",
        "The exit code of `lokt guard`, `lokt claim run` and `lokt lease run` when they are refused, instead of 2; `-E` wins.",
    ),
    (
        "LOKT_NAME, LOKT_LOCK_ID, LOKT_FENCING_TOKEN, LOKT_HOLDS",
        "Set for the command of a guard: the lock's name, the id of the hold, its fencing token, and all that the command runs under.",
    ),
    (
        "LOKT_CLAIM_NODE, LOKT_CLAIM_TOKEN, LOKT_LEDGER_DIR",
        "Set for the command of `lokt claim run`: the node, the token of the claim, and the directory that contains the ledger.",
    ),
    ("LOKT_SESSION", "The file that makes one the holder of a worktree's lease, if `--session` doesn't say."),
    (
        "XDG_RUNTIME_DIR, XDG_STATE_HOME, HOME",
        "Where session files are otherwise: in `lokt` in the first, if it is one's own, else in `lokt/sessions` in the second, else in \
         `.local/state/lokt/sessions` in the third.",
    ),
    (
        "LOKT_LEASE_WORKTREE, LOKT_LEASE_TOKEN, LOKT_LEASE_REPO, LOKT_LEASE_REPO_ID",
        "Set for the command of `lokt lease run`: the worktree, the token of its lease, and the top and the id of the repository.",
    ),
];

/// Files and directories.
pub(super) const FILES: [(&str, &str); 15] = [
    ("ROOT/locks/NAME.json", "A record: present means held."),
    ("ROOT/freezes/NAME.json", "A freeze: while it lasts nothing is granted under that name."),
    ("ROOT/audit.log", "What happened, one JSON object per line; `audit.log.1` and so on are older."),
    ("ROOT/state/", "The token counter, who waits, and what was set aside."),
    ("DIR/ledger/event-NNNNNN.json", "An event; in a native ledger `NNNNNN.json`."),
    ("DIR/ledger/.lokt/", "What lokt knows about the ledger: its settings, and what can be found out again."),
    ("REPOSITORY/main, REPOSITORY/worktrees/NAME", "The worktrees."),
    (
        "REPOSITORY/.jvs/locks/NAME.lock",
        "Who holds the lease of a worktree, for whoever looks; missing when it is free.",
    ),
    ("REPOSITORY/.jvs/locks/NAME.lock.d/", "What decides who holds it."),
    (
        "REPOSITORY/.jvs/audit/audit.jsonl",
        "What happened to leases and worktrees; each line vouches for those before it.",
    ),
    ("REPOSITORY/.jvs/snapshots/ID", "The files of a snapshot; `ID.manifest` and `ID.ready` beside it."),
    ("REPOSITORY/.jvs/descriptors/ID.json", "What a snapshot is."),
    ("REPOSITORY/.jvs/trash", "What was restored over or removed, for an hour at least."),
    ("WORKTREE/.lokt-ignore", "What snapshots leave out, in the syntax of .gitignore."),
    ("REPOSITORY/.jvs/config.json", "How long leases last here: `lease_ms`, `renew_ms`, `skew_ms`, `grace_ms`."),
];

/// Commands to type, by command; for lokt itself under its own name.
pub(super) const EXAMPLES: [(&str, &[(&str, &str)]); 42] = [
    (
        "lokt",
        &[
            ("Only one of us builds; the others are told who does.", "lokt guard build -- make"),
            ("Wait in line for it instead.", "lokt guard build --wait -- make"),
            ("Who holds what?", "lokt status"),
        ],
    ),
    (
        "guard",
        &[
            (
                "Wait for at most two minutes, and hold a lease that is renewed while the command runs.",
                "lokt guard build --ttl 5m --timeout 2m -- make",
            ),
            ("Two commands under one lock need a shell.", "lokt guard build -- sh -c 'make && make install'"),
            (
                "Hand the fencing token to whatever is written to.",
                "lokt guard build -- sh -c 'echo \"$LOKT_FENCING_TOKEN\"'",
            ),
        ],
    ),
    (
        "lock",
        &[
            (
                "Take a lock that ends by itself after half an hour.",
                "lokt lock review --ttl 30m --reason 'reviewing the release'",
            ),
            ("Take a lock that ends with this shell.", "lokt lock workspace --bind $$"),
        ],
    ),
    ("unlock", &[("Give it back.", "lokt unlock review"), ("Give back everything of mine.", "lokt unlock --all")]),
    ("status", &[("Everything that is held or frozen, for a program.", "lokt status --json")]),
    ("queue", &[("Who waits for a lock?", "lokt queue build")]),
    ("why", &[("What would `lokt lock` say, and what can be done?", "lokt why build")]),
    (
        "freeze",
        &[
            (
                "Nothing new is deployed for an hour; wait until what runs has ended.",
                "lokt freeze deploy --ttl 1h --reason 'release 1.2' --drain",
            ),
            ("And go on.", "lokt unfreeze deploy"),
        ],
    ),
    ("unfreeze", &[("End one's own freeze, if there is one.", "lokt unfreeze deploy || true")]),
    (
        "fence",
        &[("Is the lock still ours? Inside a guard.", "lokt guard build -- sh -c 'lokt fence check && echo ours'")],
    ),
    (
        "publish",
        &[(
            "Replace a file only while the lock is ours. Inside a guard.",
            "lokt guard site -- sh -c 'echo new > page.tmp && lokt publish site page.tmp page.html'",
        )],
    ),
    (
        "audit",
        &[
            ("What happened to a lock in the last hour?", "lokt audit --since 1h --name build"),
            ("Who took a lock from whom?", "lokt audit --event force-break --event stale-break"),
        ],
    ),
    ("doctor", &[("What is wrong with the root?", "lokt doctor"), ("Repair what is safe.", "lokt doctor --fix")]),
    (
        "torture",
        &[
            (
                "Is this directory's file system safe for locks, and how fast are they there?",
                "lokt torture --seconds 2",
            ),
            ("What would it say if locks didn't work?", "lokt torture --without-locks --seconds 1 || echo 'not safe'"),
        ],
    ),
    ("exists", &[("Go on only if nobody holds it.", "lokt exists build || echo free")]),
    (
        "ledger",
        &[
            (
                "A ledger in this directory, and the first event in it.",
                "lokt ledger init && lokt ledger append '{\"type\":\"note\",\"text\":\"hello\"}'",
            ),
            ("What happened?", "lokt ledger show"),
        ],
    ),
    (
        "ledger append",
        &[
            (
                "Append only if nobody else has since you looked.",
                "lokt ledger append --expect-seq \"$(lokt ledger head)\" '{\"type\":\"decided\"}'",
            ),
            ("Try again safely after a timeout.", "lokt ledger append --id job-17 '{\"type\":\"job_done\"}'"),
            ("Many events at once.", "{ echo '{\"type\":\"a\"}'; echo '{\"type\":\"b\"}'; } | lokt ledger append"),
        ],
    ),
    ("ledger show", &[("The last three, for a program.", "lokt ledger show --reverse --limit 3 --json")]),
    (
        "ledger verify",
        &[(
            "Are the events of yesterday still there?",
            "point=$(lokt ledger checkpoint) && lokt ledger verify --checkpoint \"$point\"",
        )],
    ),
    ("ledger export", &[("Everything in one file.", "lokt ledger export --output events.jsonl")]),
    (
        "claim",
        &[
            ("Only one of us works on this node.", "lokt claim run 1.2 -- make"),
            ("Who works on what?", "lokt claim list"),
        ],
    ),
    (
        "claim take",
        &[
            ("The first that is free, for ten minutes.", "lokt claim take --any 1.1 1.2 1.3 --ttl 10m"),
            ("Wait for it.", "lokt claim take 2.1 --timeout 1m"),
        ],
    ),
    (
        "claim run",
        &[(
            "The command appends under the claim that it runs under.",
            "echo '{\"type\":\"done\"}' > done.jsonl && lokt claim run 1.4 -- sh -c 'lokt ledger append -d \"$LOKT_LEDGER_DIR\" --token \"$LOKT_CLAIM_TOKEN\" --file done.jsonl'",
        )],
    ),
    ("claim reap", &[("What would be ended?", "lokt claim reap --dry-run")]),
    (
        "worktree",
        &[
            (
                "A repository in this directory, and a worktree for somebody else.",
                "lokt worktree init && lokt worktree create feature",
            ),
            ("Which are there?", "lokt worktree list"),
        ],
    ),
    ("worktree create", &[("One without leases, for everybody.", "lokt worktree create notes --isolation shared")]),
    ("worktree rename", &[("Another name.", "lokt worktree rename feature release-1.2")]),
    ("worktree remove", &[("With everything in it.", "lokt worktree remove release-1.2 --force")]),
    (
        "lease",
        &[
            ("Only one of us writes here, until this ends.", "lokt lease run -- make"),
            ("The same over several commands.", "lokt lease acquire"),
            ("Who writes where?", "lokt lease status --all"),
            ("Give it back.", "lokt lease release"),
        ],
    ),
    (
        "lease run",
        &[(
            "Publish what was made, unless somebody else writes here by then.",
            "lokt lease run --timeout 1m -- sh -c 'echo new > page.tmp && lokt lease fence publish page.tmp page.html'",
        )],
    ),
    (
        "lease acquire",
        &[
            (
                "Wait for it for at most a minute, and say what for.",
                "lokt lease acquire --timeout 1m --lease 5m --purpose 'a long rebase'",
            ),
            ("Keep it.", "lokt lease renew"),
            ("Give it back.", "lokt lease release"),
        ],
    ),
    ("lease status", &[("All of them, for a program.", "lokt lease status --all --json")]),
    (
        "lease fence",
        &[(
            "Publish only while the lease is ours.",
            "lokt lease run -- sh -c 'echo new > page.tmp && lokt lease fence publish page.tmp page.html'",
        )],
    ),
    (
        "lease break",
        &[(
            "Its holder is gone for good.",
            "lokt lease acquire && lokt lease break --force --reason 'that machine was given away'",
        )],
    ),
    (
        "lease audit",
        &[("The last three events.", "lokt lease audit --last 3"), ("Is it whole?", "lokt lease audit --verify")],
    ),
    (
        "snapshot",
        &[
            (
                "Before a risky step, while nobody else writes here.",
                "lokt snapshot create --acquire --note 'before the upgrade'",
            ),
            ("Which are there?", "lokt snapshot history"),
            ("What was changed since?", "lokt snapshot diff latest"),
            ("Back to it.", "lokt snapshot restore latest --in-place --force --acquire"),
        ],
    ),
    (
        "snapshot create",
        &[
            ("Under the lease of a command.", "lokt lease run -- lokt snapshot create"),
            ("Whatever is being written.", "lokt snapshot create --acquire --consistency best_effort"),
        ],
    ),
    (
        "snapshot history",
        &[("The last three of all worktrees, for a program.", "lokt snapshot history -n 3 --all --json")],
    ),
    (
        "snapshot diff",
        &[("Go on only if nothing was changed.", "lokt snapshot diff latest --exit-code || echo changed")],
    ),
    (
        "snapshot restore",
        &[
            ("Beside what is there.", "lokt snapshot restore latest --into before"),
            ("What would change?", "lokt snapshot restore latest --in-place --dry-run"),
        ],
    ),
    ("snapshot verify", &[("Are all of them what they were?", "lokt snapshot verify --all")]),
    (
        "snapshot gc",
        &[
            ("What would go?", "lokt snapshot gc plan --keep-last 10 --keep-within 7d"),
            ("Let it go.", "lokt snapshot gc run --keep-last 10 --keep-within 7d"),
        ],
    ),
];
