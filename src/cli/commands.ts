// Every command, as data, under the headings of `reprise help`: help, completion and parsing all read this one table.

import type { CommandGroup, CommandSpec } from './command.ts'
import {
  cancelOptions,
  drillOptions,
  flag,
  forkOptions,
  initOptions,
  limit,
  listOptions,
  logOption,
  moduleOption,
  resumeOptions,
  rollbackOptions,
  runOptions,
  value,
  values,
  workOptions,
  yes,
} from './option-specs.ts'

/** A command as it is declared. Its name and the number of its arguments are read from `usage`, unless it states the number. */
type CommandRow = Omit<CommandSpec, 'name' | 'arguments'> & Partial<Pick<CommandSpec, 'arguments'>>

const start: readonly CommandRow[] = [
  {
    usage: 'demo',
    summary: 'watch a job being killed three times and resume each time',
    options: {
      items: value('N', 'number of items (default: 2,000)'),
      kills: value('N', 'number of kills (default: 3)'),
      keep: flag("keep the demo's store"),
    },
    store: 'none',
    load: () => import('./commands/demo.ts'),
  },
  {
    usage: 'init [FOLDER]',
    summary: 'write a first job, or another template, that runs as it is',
    options: initOptions,
    store: 'none',
    load: () => import('./commands/init.ts'),
  },
  {
    usage: 'advise',
    summary: 'answer a few questions, get a configuration with code',
    options: {
      about: value(
        'WORD',
        'subject of the work: items, changes, entities, records, conversation, stream, results, files, desired, settings, program or anything',
      ),
      truth: value('history|state|external', 'the authoritative data'),
      captures: value('progress|state|both|execution', 'what a recovery must restore'),
      scope: value('one|machine|many', 'one process, one machine or many'),
      budget: value('DURATION', 'time limit of a recovery'),
      effects: flag('the work calls outside systems'),
    },
    store: 'none',
    load: () => import('./commands/advise.ts'),
  },
  {
    usage: 'doctor',
    summary: 'check Node, driver, durability, disk, clock, workers, checkpoints',
    options: { module: moduleOption },
    store: 'none',
    load: () => import('./commands/doctor.ts'),
  },
  {
    usage: 'explain [CODE]',
    summary: 'explain an error code and its remedy',
    store: 'none',
    load: () => import('./commands/explain.ts'),
  },
  {
    usage: 'completion bash|zsh|fish',
    summary: 'print a completion script for a shell',
    store: 'none',
    load: () => import('./commands/completion.ts'),
  },
]

const execution: readonly CommandRow[] = [
  {
    usage: 'run FILE [NAME]',
    summary: 'run a definition that a module exports',
    options: runOptions,
    store: 'create',
    load: () => import('./commands/run.ts'),
  },
  {
    usage: 'work FILE [NAME…]',
    summary: 'execute the due work of a module until interrupted',
    details:
      'Executes workflows, schedules, queues, jobs, consumers, projections and process managers that the module exports.',
    options: workOptions,
    store: 'create',
    load: () => import('./commands/work.ts'),
  },
  {
    usage: 'resume [NAME]',
    summary: 'resume unfinished work that `reprise run` started',
    options: resumeOptions,
    store: 'existing',
    load: () => import('./commands/resume.ts'),
  },
  {
    usage: 'dev FILE',
    summary: 'serve and execute a module, and restart when its files change',
    options: {
      port: value('N', 'port (default: 4400)'),
      'token-file': value('FILE', 'token file (default: .reprise/server-tokens.json)'),
      open: flag('open the dashboard in a browser'),
      log: logOption,
    },
    store: 'none',
    load: () => import('./commands/dev.ts'),
  },
  {
    usage: 'serve',
    summary: 'serve the store over HTTP, with a dashboard, until interrupted',
    options: {
      port: value('N', 'port; 0 for any free port (default: 4400)'),
      host: value('ADDRESS', 'address to listen on (default: 127.0.0.1)'),
      origin: values('URL', 'public address of a reverse proxy, such as https://reprise.example.com'),
      'token-file': value('FILE', 'token file, created at the first start (default: .reprise/server-tokens.json)'),
      'read-only': flag('refuse every change'),
      open: flag('open the dashboard in a browser'),
      mcp: value('read|act', 'tools for language models at /mcp; act: also fork, retry, signal'),
      'cache-unused': value('DURATION', 'remove build artifacts not used for this long'),
      'cache-bytes': value('SIZE', 'remove the least recently used build artifacts beyond this size, such as 50GB'),
      log: logOption,
      work: flag("also execute the module's definitions, as `reprise work` does"),
      module: moduleOption,
    },
    store: 'none',
    load: () => import('./commands/serve.ts'),
  },
  {
    usage: 'link [ADDRESS]',
    summary: 'print a new one-time link to the dashboard of a running server',
    options: {
      token: value('TOKEN', 'token of the session (default: $REPRISE_TOKEN, or the first of the token file)'),
      'token-file': value('FILE', 'token file of the server (default: .reprise/server-tokens.json)'),
      open: flag('open the dashboard in a browser'),
    },
    store: 'none',
    load: () => import('./commands/link.ts'),
  },
  {
    usage: 'mcp',
    summary: 'serve the store to a language model over stdin and stdout',
    details: 'The tools only read, unless --act is set.',
    options: {
      act: flag('also offer tools that fork, retry and signal'),
      module: moduleOption,
    },
    store: 'none',
    load: () => import('./commands/mcp.ts'),
  },
  {
    usage: 'check FILE',
    summary: 'replay histories and inputs with new code',
    options: {
      history: values('FILE', 'also replay this exported history'),
      ended: flag('also replay runs that have ended'),
      from: value('CHECKPOINT', 'pipelines: start here (default: the oldest one kept)'),
      records: value('N', 'pipelines: at most this many records (default: 10,000)'),
      input: values('SOURCE=FILE', 'replace a source with a file of JSON Lines'),
    },
    store: 'reading',
    mayLackStore: true,
    load: () => import('./commands/check.ts'),
  },
  {
    usage: 'exec --state DIR [--id ID] -- COMMAND…',
    forms: ['exec --resume ID'],
    summary: 'run a program in any language with checkpoints of its files',
    details: 'The newest checkpoint is restored before each start.',
    options: {
      state: value('DIR', 'folder of its own, with the files it needs to resume'),
      id: value('ID', 'name of the program (default: made from the command)'),
      resume: value('ID', 'restart the program with the command and the options of its last start'),
      say: value('WORD', 'from inside the program: request capture, savepoint or progress, and wait for the answer'),
      when: value('RULE', 'when its files are complete: quiet, rename, marker or word (default: quiet)'),
      quiet: value('DURATION', 'time without changes for `--when quiet` (default: 1s)'),
      marker: value('FILE', 'file in the folder that the program writes last'),
      every: value('DURATION', 'capture at least this often, as soon as no file is being written'),
      ignore: values('PATTERN', 'files to ignore, as in .gitignore'),
      keep: value('N', 'keep the last N captures (default: 3)'),
      grace: value('DURATION', 'time from SIGTERM until SIGKILL (default: 25s)'),
      retries: value('N', 'restart after at most this many failures in a row (default: 0)'),
      backoff: value('DURATION', 'delay after the first failure (default: 1s)'),
      fresh: flag('start with the folder as it is, without a restore'),
      replace: flag('restore even if that deletes files in the folder'),
      wait: value('DURATION', 'how long to wait for another process that runs it'),
      takeover: flag('even if a live process runs it; that process is stopped'),
      report: value('KIND', 'lines, bar or none (default: lines)'),
    },
    arguments: [0, 1000],
    store: 'create',
    load: () => import('./commands/exec.ts'),
  },
  {
    usage: 'cache run|explain|check -- COMMAND…',
    forms: ['cache ls|prune [NAME]', 'cache pin|unpin|forget ID'],
    summary: 'run a command once per input, then restore its outputs',
    details: '`cache explain` prints why a command would run or not.',
    options: {
      name: value('NAME', 'name of the command (default: made from the command)'),
      input: values('PATTERN', "files that the command reads, such as 'src/**'"),
      output: values('PATTERN', "files that the command writes, such as 'dist/**'"),
      env: values('NAME', 'environment variable that the command reads'),
      tool: values('NAME', 'program on the PATH whose version is an input'),
      directory: value('DIR', 'working directory of the command and its files'),
      clean: flag('move existing outputs away while the command runs'),
      'no-inputs': flag('the command reads no files'),
      ttl: value('DURATION', 'how long a result is valid (default: forever)'),
      errors: value('DURATION', 'cache failures for this long'),
      scope: value('NAME', 'scope to write to; main is read as well'),
      refresh: flag('run the command even if there is a result'),
      remote: values('URL', 'remote cache: a server (token: $REPRISE_CACHE_TOKEN) or s3://bucket/prefix'),
      'remote-timeout': value('DURATION', 'give up on a remote cache after this long (default: 10s)'),
      unused: value('DURATION', 'prune: remove results not used for this long'),
      bytes: value('SIZE', 'prune: remove the least recently used results beyond this size, such as 2GB'),
      yes,
    },
    arguments: [1, 1000],
    store: 'create',
    load: () => import('./commands/cache.ts'),
  },
]

const inspection: readonly CommandRow[] = [
  {
    usage: 'ls [ID]',
    summary: 'list all timelines, or one id and the ids below it',
    options: listOptions,
    store: 'reading',
    load: () => import('./commands/ls.ts'),
  },
  {
    usage: 'show TIMELINE',
    summary: 'show the status of one timeline',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('./commands/show.ts'),
  },
  {
    usage: 'log [TIMELINE]',
    summary: 'print the entries of a timeline, or the reports of the store',
    options: {
      reports: flag('show reports instead: recoveries, drills, failed checkpoints, …'),
      kind: value('KIND', 'only reports of this kind'),
      since: value('DURATION', 'only reports newer than this, such as 2h or 7d'),
      after: value('SEQ', 'only entries after this sequence'),
      type: value('TYPE', 'only entries of this type'),
      full: flag('show all data, not shortened'),
      limit,
    },
    store: 'reading',
    load: () => import('./commands/log.ts'),
  },
  {
    usage: 'tail [ID]',
    summary: 'follow new entries of one timeline, of many, or of all',
    options: {
      full: flag('show all data, not shortened'),
      from: value('start|now', 'where to begin (default: now)'),
      once: flag('stop at the last entry instead of following'),
    },
    store: 'reading',
    load: () => import('./commands/tail.ts'),
  },
  {
    usage: 'at TIMELINE[@SEQ]',
    summary: 'show the state as of a sequence',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('./commands/views.ts'),
  },
  {
    usage: 'diff TIMELINE@SEQ TIMELINE@SEQ',
    summary: 'compare the states at two coordinates',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('./commands/views.ts'),
  },
  {
    usage: 'checkpoints TIMELINE',
    summary: 'list the checkpoints and savepoints of a timeline',
    store: 'reading',
    load: () => import('./commands/listings.ts'),
  },
  {
    usage: 'card TIMELINE',
    summary: 'show the recovery card: captured state and cost of recovery',
    options: { module: moduleOption },
    store: 'reading',
    load: () => import('./commands/views.ts'),
  },
  {
    usage: 'effects TIMELINE',
    summary: 'list outside effects of a timeline, with those in doubt',
    options: {
      open: flag('only effects without an outcome'),
      settle: value('EFFECT', 'record the outcome of this effect (see --as)'),
      as: value('done|failed|compensated', 'the outcome to record'),
      by: value('NAME', 'author of the outcome (default: $USER)'),
      result: value('JSON', 'result of the effect'),
      module: moduleOption,
    },
    store: 'existing',
    load: () => import('./commands/effects.ts'),
  },
  {
    usage: 'saves [NAME]',
    summary: 'list saved states, newest first',
    store: 'existing',
    load: () => import('./commands/saves.ts'),
  },
  {
    usage: 'state get|diff PIPELINE OPERATOR [KEY]',
    summary: "show a pipeline operator's state for a key, at a checkpoint",
    options: {
      checkpoint: value('ID', 'as of this checkpoint (default: the newest)'),
      before: value('ID', 'diff: show changes since this checkpoint'),
      number: flag('the key is a number'),
    },
    store: 'reading',
    load: () => import('./commands/state.ts'),
  },
]

const operation: readonly CommandRow[] = [
  {
    usage: 'signal TIMELINE NAME [JSON]',
    summary: 'send a signal to a run',
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'query RUN NAME [JSON…]',
    summary: 'call a query handler of a workflow run',
    options: { module: moduleOption },
    arguments: [2, 10],
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'update RUN NAME [JSON]',
    summary: 'call an update handler of a workflow run',
    options: {
      timeout: value('DURATION', 'how long to wait for the answer (default: 10s)'),
      key: value('TEXT', 'idempotency key: repeated calls with one key count once'),
      module: moduleOption,
    },
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'stop TIMELINE',
    summary: 'stop a pipeline or a job so that it can be resumed later',
    options: { reason: value('TEXT', 'reason, for its history') },
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'cancel TIMELINE',
    summary: 'cancel a run; a workflow compensates its steps',
    options: cancelOptions,
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'terminate TIMELINE',
    summary: 'end a run at once, without compensation',
    options: { reason: value('TEXT', 'reason, for its history'), yes },
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'retry TIMELINE',
    summary: 'undo the last failure of a run, so that it resumes',
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'settle TIMELINE STEP done|failed|retry|compensated',
    summary: 'record the outcome of a held step or a stuck compensation',
    options: {
      by: value('NAME', 'author of the outcome'),
      result: value('JSON', 'result of the step'),
    },
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'decide TIMELINE approve|refuse|replay|done|retry',
    summary: 'answer the pending decision of an agent session',
    options: {
      by: value('NAME', 'author of the decision'),
      reason: value('TEXT', 'reason, for its history'),
    },
    store: 'existing',
    load: () => import('./commands/run-actions.ts'),
  },
  {
    usage: 'dead [NAME]',
    summary: 'list dead letters of jobs, pipelines, informers and controllers',
    options: {
      discard: values('KEY', 'treat this key as finished'),
      full: flag('show items and stack traces'),
    },
    store: 'reading',
    writesWith: ['discard'],
    load: () => import('./commands/letters.ts'),
  },
  {
    usage: 'redrive NAME [KEY…]',
    summary: 'retry dead letters',
    options: {
      all: flag('retry all dead letters of NAME'),
      item: value('JSON', 'replace the stored item (one key of a job)'),
    },
    store: 'existing',
    load: () => import('./commands/letters.ts'),
  },
]

const processes: readonly CommandRow[] = [
  {
    usage: 'workers',
    summary: 'list worker processes, and whether they make progress',
    options: { all: flag('include workers that are gone') },
    store: 'reading',
    load: () => import('./commands/listings.ts'),
  },
  {
    usage: 'queues',
    summary: 'list the waiting work of each queue',
    store: 'reading',
    load: () => import('./commands/listings.ts'),
  },
  {
    usage: 'schedules',
    summary: 'list schedules, and when each is due next',
    store: 'existing',
    load: () => import('./commands/listings.ts'),
  },
  {
    usage: 'consumers',
    summary: 'list readers of the feed, and how far behind each is',
    store: 'existing',
    load: () => import('./commands/listings.ts'),
  },
  {
    usage: 'rebuild FILE [PROJECTION]',
    forms: ['rebuild [PROJECTION] --module FILE'],
    summary: 'rebuild a projection beside the one in use, then swap them',
    options: { module: moduleOption },
    arguments: [0, 2],
    store: 'existing',
    load: () => import('./commands/rebuild.ts'),
  },
]

const branches: readonly CommandRow[] = [
  {
    usage: 'savepoint TIMELINE[@SEQ]…',
    summary: 'make a checkpoint that is kept until it is released',
    details: 'For several timelines, it makes one consistent cut of them all.',
    options: {
      label: value('TEXT', 'label of the savepoint; for several timelines, the name of the cut'),
      release: value('ID', 'release this savepoint instead'),
      module: moduleOption,
    },
    store: 'existing',
    load: () => import('./commands/checkpointing.ts'),
  },
  {
    usage: 'fork TIMELINE[@SEQ] NEW',
    summary: 'start a new timeline that shares the history up to a sequence',
    options: forkOptions,
    store: 'existing',
    load: () => import('./commands/fork.ts'),
  },
  {
    usage: 'rollback TIMELINE[@SEQ]',
    summary: 'roll a timeline back, after showing what would be undone',
    options: rollbackOptions,
    store: 'existing',
    load: () => import('./commands/rollback.ts'),
  },
  {
    usage: 'group capture|ls|show|line|restore|resume|abandon|release …',
    summary: 'capture timelines of any models in one cut; restore them together',
    options: {
      timeout: value(
        'DURATION',
        'capture: time limit (default: 30s); restore: time for live owners to release their timelines (default: 10s)',
      ),
      failed: values('TIMELINE', 'line, restore: a member that failed (default: all)'),
      takeover: flag('restore: even if live processes own the timelines'),
      'even-consumed': flag('restore: even if consumers have acted on the undone entries; they are recorded'),
      module: moduleOption,
      yes,
    },
    store: 'existing',
    load: () => import('./commands/group.ts'),
  },
  {
    usage: 'mark TIMELINE CHECKPOINT',
    summary: 'mark a checkpoint as bad, so that no restore uses it',
    options: {
      bad: value('WHY', 'reason why it is bad'),
      good: flag('remove the mark'),
      by: value('NAME', 'author of the mark (default: $USER)'),
    },
    store: 'existing',
    load: () => import('./commands/checkpointing.ts'),
  },
]

const proof: readonly CommandRow[] = [
  {
    usage: 'verify [TIMELINE…]',
    summary: 'read everything and report damage',
    details: 'With --repair, it also repairs everything that has an intact copy or can be rebuilt.',
    options: {
      module: moduleOption,
      repair: flag('repair everything that has an intact copy or can be rebuilt'),
      from: value(
        'SOURCE',
        'another source of intact copies: a store, a folder of chunks, an export or a backup (the last three also s3://…)',
      ),
      resume: flag('save progress, and resume an interrupted verification'),
      progress: flag('print progress on stderr even if it is not a terminal'),
      'chunks-lost': flag('accept that the chunks in the folder of --blobs are lost, and repair'),
    },
    writesWith: ['repair', 'chunks-lost', 'resume'],
    renewsWith: 'repair',
    store: 'reading',
    evenUnfinished: true,
    load: () => import('./commands/verify.ts'),
  },
  {
    usage: 'drill [TIMELINE…]',
    summary: 'restore checkpoints to a separate place and compare them',
    options: drillOptions,
    store: 'existing',
    load: () => import('./commands/drill.ts'),
  },
  {
    usage: 'give-up TIMELINE|LOSS --by NAME --reason TEXT',
    summary: 'show what giving up damaged history loses; with --yes, do it',
    options: {
      by: value('NAME', 'author of the decision, for the record'),
      reason: value('TEXT', 'reason, for the record'),
      module: moduleOption,
      yes,
    },
    store: 'existing',
    load: () => import('./commands/give-up.ts'),
  },
]

const copies: readonly CommandRow[] = [
  {
    usage: 'backup FILE',
    summary: 'write the whole store into one file',
    details: 'FILE may be s3://bucket/name. Repeat the command to resume after an interruption.',
    options: { force: flag('overwrite an existing file') },
    store: 'existing',
    load: () => import('./commands/backup.ts'),
  },
  {
    usage: 'restore FILE',
    summary: 'restore a backup or shipped records into an empty store',
    details: 'Repeat the command to resume after an interruption.',
    options: {
      at: value('WHEN', 'shipped: a time, a feed position or #RECORD (default: the newest)'),
      into: value('URL', 'the new store (default: --url)'),
      copy: flag('the original stays in use, so the new store gets its own identity'),
    },
    store: 'create',
    evenUnfinished: true,
    load: () => import('./commands/backup.ts'),
  },
  {
    usage: 'ship PLACE',
    summary: 'ship commits of a SQLite store elsewhere, until interrupted',
    details: 'PLACE is a folder or s3://bucket/prefix.',
    options: {
      every: value('DURATION', 'interval while there are commits (default: 1s)'),
      base: value('DURATION', 'interval of copies of the whole state (default: 1d)'),
      keep: value('DURATION', 'how far back a restore can go (default: 7d)'),
      once: flag('ship the present commits, and exit'),
      take: flag('even if PLACE contains records of another store'),
      verify: flag('only check the shipped records'),
    },
    store: 'reading',
    load: () => import('./commands/ship.ts'),
  },
  {
    usage: 'export TIMELINE[@SEQ] FILE',
    summary: 'write a timeline into one file',
    details: 'FILE may be s3://bucket/name. With --progress it contains JSON Lines (- for stdout).',
    options: {
      'state-only': flag('export only the newest checkpoint, without history'),
      progress: flag('export the finished keys of a job as JSON Lines'),
      history: flag('export the history of a workflow, for reprise check --history'),
      force: flag('overwrite an existing file or object'),
    },
    store: 'reading',
    load: () => import('./commands/export.ts'),
  },
  {
    usage: 'import FILE',
    summary: 'read an exported file, or the progress of another script',
    details: 'FILE may be s3://bucket/name.',
    options: {
      as: value('ID', 'import it under this id'),
      progress: value('JOB', 'the file is JSON Lines of finished keys for this job'),
      key: value('FIELD', 'field that holds the key (default: key or id)'),
      shards: value('N', 'shards of the job (default: 1)'),
    },
    store: 'create',
    load: () => import('./commands/import.ts'),
  },
  {
    usage: 'move TIMELINE [FILE]',
    summary: 'stop a timeline and move it to another store or into a file',
    options: {
      to: value('URL', 'the other store'),
      back: flag('undo a move that has not arrived anywhere; after an interrupted move, with --to URL'),
      takeover: flag('even if a live process owns the timeline'),
      module: moduleOption,
    },
    store: 'existing',
    load: () => import('./commands/move.ts'),
  },
  {
    usage: 'changes [ID]',
    summary: 'list unfinished restores, imports, moves; resume or abandon one',
    options: {
      resume: flag('resume the change'),
      abandon: flag('undo the change, and delete its data'),
      to: value('URL', 'with --resume of a move: the target store'),
      from: value('URL', 'with --resume of the import of a move: the source store'),
      module: moduleOption,
      yes,
    },
    writesWith: ['resume', 'abandon'],
    store: 'reading',
    evenUnfinished: true,
    load: () => import('./commands/changes.ts'),
  },
  {
    usage: 'upload FILE URL',
    summary: 'send a file to a tus server; repeat the command to resume',
    options: {
      token: value('TOKEN', 'sent as Authorization: Bearer (default: $REPRISE_TOKEN)'),
      metadata: values('KEY=VALUE', 'metadata to send with the file name'),
      stall: value('DURATION', 'abort a stalled connection after this long (default: 60s)'),
    },
    store: 'none',
    load: () => import('./commands/upload.ts'),
  },
  {
    usage: 'download URL FILE',
    summary: 'fetch a file from a server; repeat the command to resume',
    options: {
      token: value('TOKEN', 'sent as Authorization: Bearer (default: $REPRISE_TOKEN)'),
      force: flag('overwrite an existing file'),
      stall: value('DURATION', 'abort a stalled connection after this long (default: 60s)'),
    },
    store: 'none',
    load: () => import('./commands/download.ts'),
  },
]

const storage: readonly CommandRow[] = [
  {
    usage: 'prune',
    summary: 'show what retention would remove, and why; with --yes, remove it',
    options: { module: moduleOption, yes },
    store: 'reading',
    writesWith: ['yes'],
    load: () => import('./commands/checkpointing.ts'),
  },
  {
    usage: 'tiers',
    summary: 'show chunks by tier and planned moves; with --yes, move them',
    options: { yes },
    store: 'reading',
    writesWith: ['yes'],
    load: () => import('./commands/tiers.ts'),
  },
  {
    usage: 'delete TIMELINE',
    summary: 'show what deletion would remove; with --yes, delete a timeline',
    options: {
      forks: flag('also remove forks that share its history'),
      savepoints: flag('also remove savepoints that were not released'),
      unfinished: flag('even if the timeline has not ended'),
      yes,
    },
    store: 'reading',
    writesWith: ['yes'],
    load: () => import('./commands/delete.ts'),
  },
  {
    usage: 'erase TIMELINE',
    summary: 'show what erasure would remove; with --yes, erase it',
    details: 'It erases a timeline, or some of its entries, from the files of the store.',
    options: {
      entries: value('FROM..TO', 'only these sequences; the rest of the history is kept'),
      where: values(
        'NAME=VALUE',
        'only entries with this type, key or field, in the timeline, its archives and its forks',
      ),
      reason: value('TEXT', 'reason, for the record; no personal data'),
      takeover: flag('entries: even if a live process owns the timeline'),
      module: moduleOption,
      forks: flag('also remove forks that share its history'),
      savepoints: flag('also remove savepoints that were not released'),
      unfinished: flag('even if the timeline has not ended'),
      yes,
    },
    store: 'existing',
    load: () => import('./commands/erase.ts'),
  },
  {
    usage: 'keys',
    summary: 'list the encryption keys of the store, and missing ones',
    store: 'reading',
    load: () => import('./commands/listings.ts'),
  },
  {
    usage: 'rekey',
    summary: 'encrypt everything with the current key, to retire older keys',
    store: 'existing',
    load: () => import('./commands/store-identity.ts'),
  },
  {
    usage: 'incarnate',
    summary: 'declare that the database was restored from outside',
    details: 'Positions from before are refused from then on. An older copy of a SQLite file is accepted.',
    store: 'none',
    load: () => import('./commands/store-identity.ts'),
  },
  {
    usage: 'shards [add URL]',
    summary: 'list the databases of a sharded store, or add one',
    details: 'Adding a database moves its share of the timelines to it.',
    options: {
      wait: value('DURATION', 'add: wait this long for timelines in use before taking them over (default: 10s)'),
    },
    store: 'existing',
    load: () => import('./commands/shards.ts'),
  },
]

export const commandGroups: readonly CommandGroup[] = [
  { topic: 'start', title: 'Start here', commands: start.map(specOf) },
  { topic: 'execution', title: 'Run and serve', commands: execution.map(specOf) },
  { topic: 'inspection', title: 'Inspect timelines', commands: inspection.map(specOf) },
  { topic: 'operation', title: 'Act on runs, sessions and dead letters', commands: operation.map(specOf) },
  { topic: 'processes', title: 'Workers, queues and readers of the feed', commands: processes.map(specOf) },
  { topic: 'branches', title: 'Savepoints, forks and rollbacks', commands: branches.map(specOf) },
  { topic: 'proof', title: 'Verify and repair', commands: proof.map(specOf) },
  { topic: 'copies', title: 'Copy, move and restore', commands: copies.map(specOf) },
  { topic: 'storage', title: 'Retention, erasure, keys and databases', commands: storage.map(specOf) },
]

export const commands: readonly CommandSpec[] = commandGroups.flatMap((group) => group.commands)

export const commonOptions = {
  url: value('URL', 'the store (default: $REPRISE_URL or sqlite:.reprise/reprise.db)'),
  namespace: value('NAME', 'namespace in the store'),
  blobs: value('DIR', 'folder or s3://bucket/prefix of chunks outside the store (default: $REPRISE_BLOBS)'),
  keys: value('FILE', 'encryption keys, as JSON: { current, keys: { id: base64 } } (default: $REPRISE_KEYS)'),
  json: flag('print results as JSON'),
  verbose: flag('show stack traces of errors'),
  help: flag('show this help', 'h'),
} as const

function specOf(row: CommandRow): CommandSpec {
  const [words = ''] = row.usage.split(' --')
  const [name = '', ...rest] = words.split(' ')
  return { ...row, name, arguments: row.arguments ?? argumentsOf(rest) }
}

/** @example argumentsOf(['NAME', '[KEY…]']) // [1, 1000] */
function argumentsOf(words: readonly string[]): readonly [number, number] {
  let least = 0
  let isOptional = false
  for (const word of words) {
    isOptional ||= word.startsWith('[')
    if (!isOptional && word !== '…') least++
    if (word.endsWith(']')) isOptional = false
  }
  return [least, words.some((word) => word.includes('…')) ? 1000 : words.length]
}
