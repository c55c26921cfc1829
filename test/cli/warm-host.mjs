// A process that runs one command of the command line after another, each as the launcher would: in its folder, with its
// environment and its input. It returns the command's output, its exit code, and the handles that would have kept the process
// alive.

import { Readable } from 'node:stream'

let ownResources = null
const lookMs = 10
const looksMax = 1000

process.on('message', async ({ main, args, cwd, env, input }) => {
  const { runCli } = await import(main)
  // Its own streams exist once they are accessed.
  ownResources ??= [process.stdout, process.stderr] && process.getActiveResourcesInfo()
  process.chdir(cwd)
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, env)
  Object.defineProperty(process, 'stdin', { value: Readable.from([input]), configurable: true })
  const said = { stdout: '', stderr: '' }
  const writes = ['stdout', 'stderr'].map((name) => {
    const before = process[name].write
    process[name].write = (piece, ...rest) => {
      said[name] += piece
      rest.at(-1)?.call?.(null)
      return true
    }
    return () => {
      process[name].write = before
    }
  })
  const code = await runCli(args)
  let left = kept()
  for (let looks = 0; left.length > 0 && looks < looksMax; looks++) {
    await new Promise((resolve) => setTimeout(resolve, lookMs))
    left = kept()
  }
  for (const undo of writes) undo()
  process.send({ code, left, ...said })
})

/** The handles that keep a process alive, except those of this process. */
function kept() {
  const own = [...ownResources]
  return process.getActiveResourcesInfo().filter((name) => {
    const at = own.indexOf(name)
    if (at >= 0) own.splice(at, 1)
    return at < 0
  })
}
