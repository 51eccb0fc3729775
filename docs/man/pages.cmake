# SPDX-License-Identifier: Apache-2.0
# Writes the manual pages of DETOUR to OUT; see CMakeLists.txt.
cmake_minimum_required(VERSION 3.22)
file(REMOVE_RECURSE ${OUT})
file(MAKE_DIRECTORY ${OUT})
execute_process(COMMAND ${DETOUR} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)

# The rows "  name   what it does" of a help text, below "Commands:" or "Verbs:", as a list "name|what it does".
function(rows_of words result)
  execute_process(COMMAND ${DETOUR} ${words} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE ";" "," help "${help}")
  set(rows)
  if(help MATCHES "\n(Commands|Verbs):\n(([ ]+[^\n]+\n)+)")
    string(REGEX MATCHALL "  [a-z0-9-]+ +[^\n]+" lines "${CMAKE_MATCH_2}")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^  ([a-z0-9-]+) +(.*)$" "\\1|\\2" row "${line}")
      list(APPEND rows "${row}")
    endforeach()
  endif()
  set(${result} "${rows}" PARENT_SCOPE)
endfunction()

# The page of one command: its words (a list), one line about it, the pages to see also.
function(write_page words summary see_also)
  list(JOIN words "-" name)
  string(REPLACE ";" " " command "${words}")
  string(REGEX REPLACE "^detour" "${DETOUR}" program "${command}")
  list(TRANSFORM see_also REPLACE "(.+)" ".BR \\1 (1)")
  list(JOIN see_also ",\n" see_also)
  file(WRITE ${OUT}/${name}.see "[SEE ALSO]\n${see_also}\n")
  execute_process(
    COMMAND ${HELP2MAN} --no-info --no-discard-stderr --version-string=${version} --name=${summary}
            --opt-include=${SECTIONS}/${name}.h2m --include=${OUT}/${name}.see "${program}"
    OUTPUT_VARIABLE page COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE ${OUT}/${name}.see)
  # help2man names the page after the program alone, and takes the headings of groups of options for text.
  string(TOUPPER "${name}" title)
  string(REPLACE ".TH DETOUR " ".TH ${title} " page "${page}")
  string(REPLACE ".SH NAME\ndetour " ".SH NAME\n${name} " page "${page}")
  string(REGEX REPLACE "\n\\.IP\n([A-Z][^\n]*:)\n\\.TP" "\n.SS \"\\1\"\n.TP" page "${page}")
  file(WRITE ${OUT}/${name}.1 "${page}")
endfunction()

set(all detour)
rows_of("" commands)
foreach(command IN LISTS commands)
  string(REGEX REPLACE "[|].*" "" command_name "${command}")
  string(REGEX REPLACE "^[^|]*[|]" "" summary "${command}")
  rows_of("${command_name}" verbs)
  set(pages "")
  foreach(verb IN LISTS verbs)
    string(REGEX REPLACE "[|].*" "" verb_name "${verb}")
    string(REGEX REPLACE "^[^|]*[|]" "" verb_summary "${verb}")
    write_page("detour;${command_name};${verb_name}" "${verb_summary}" "detour-${command_name}")
    list(APPEND pages detour-${command_name}-${verb_name})
  endforeach()
  list(PREPEND pages detour)
  write_page("detour;${command_name}" "${summary}" "${pages}")
  list(APPEND all detour-${command_name})
endforeach()
list(REMOVE_ITEM all detour)
write_page(detour "keeps training jobs moving when a network link is slow or dead" "${all}")
