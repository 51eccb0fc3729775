/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes a decision on a host: a command line for the command sockets of its processes (obs/server.h),
 * decision.json for a re-plan, remedy.json and an event of the processes for a remedy. Blocks for as long as
 * the processes take to answer, a few seconds at most.
 */
#ifndef DETOUR_CONTROLLER_EXECUTE_H
#define DETOUR_CONTROLLER_EXECUTE_H

#include "controller/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The file of the newest re-plan in the runtime directory: the record of the decision (record.h), whole,
 * since it is written under another name first and then renamed.
 */
#define DT_DECISION_FILE "decision.json"

/* Likewise of the newest remedy. */
#define DT_REMEDY_FILE "remedy.json"

#define DT_EXECUTE_LINE_BYTES 288

/*
 * The command line of a decision. False: the decision is none for a command socket (replan), or its members
 * do not suffice for its kind.
 */
bool dt_execute_line(const struct dt_decision *decision, char line[DT_EXECUTE_LINE_BYTES]);

/*
 * Executes. `runtime_dir`: NULL is the default. DT_OK: at least one process has executed the order, and none
 * has failed, or the file is written; DT_NOT_FOUND: no process has the connection or the RNIC; otherwise the
 * status of the first process that failed. `text`: one line about the result.
 */
enum dt_status dt_execute(const char *runtime_dir, const struct dt_decision *decision,
                          char text[DT_RECORD_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
