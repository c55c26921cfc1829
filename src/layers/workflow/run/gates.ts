// Rate limits and breakers of steps: one for each step name of a workflow, shared by all of its runs in this process.

import { CallGate, type CallPolicy } from '../../../core/calls/call-policy.ts'

const gates = new WeakMap<object, Map<string, CallGate>>()

/** Returns null if the step has neither. A step whose settings differ between calls has one gate per set of settings. */
export function gateOf(
  definition: object,
  step: string,
  { rate, breaker }: Pick<CallPolicy, 'rate' | 'breaker'>,
): CallGate | null {
  if (rate === undefined && (breaker === undefined || breaker === false)) return null
  const own = gates.get(definition) ?? new Map<string, CallGate>()
  gates.set(definition, own)
  const name = JSON.stringify([step, rate, breaker])
  const gate = own.get(name) ?? new CallGate({ ...(rate && { rate }), ...(breaker && { breaker }) })
  own.set(name, gate)
  return gate
}
